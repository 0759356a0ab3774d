"""Rows of sites: their map and its named places."""

from django.db import models

from fleet.models.columns import no_nul


class Site(models.Model):
    """A place of work with its own map, named places, robots and people."""

    name = models.CharField(max_length=200, unique=True, validators=[no_nul])
    map_sha256 = models.CharField(max_length=64, default="", help_text="Of the picture in MapImage; empty: no map.")
    map_width = models.PositiveIntegerField(null=True, help_text="Pixels.")
    map_height = models.PositiveIntegerField(null=True, help_text="Pixels.")
    map_x = models.FloatField(default=0.0, help_text="Where the lower left corner of the picture is (m).")
    map_y = models.FloatField(default=0.0)
    map_m_per_px = models.FloatField(default=0.05)
    map_rotation = models.FloatField(
        default=0.0, help_text="Of the picture about that corner, counter-clockwise (rad)."
    )
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class MapImage(models.Model):
    """The picture of a site's map, re-encoded by us: never changed, named by its hash in the site's history.

    In the database, so that a backup of it is a backup of everything.
    """

    site = models.ForeignKey(Site, models.PROTECT, related_name="map_images")
    sha256 = models.CharField(max_length=64)
    png = models.BinaryField()
    added_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "sha256"], name="map_image_once_per_site")]

    def __str__(self) -> str:
        return f"{self.site}: {self.sha256[:12]}"


class Place(models.Model):
    """A named pose on a site's map. x and y in metres, theta in radians. Folded from the history of its site."""

    site = models.ForeignKey(Site, models.PROTECT, related_name="places")
    number = models.PositiveIntegerField(help_text="seq of the site's event that added it.")
    name = models.CharField(max_length=200, validators=[no_nul])
    x = models.FloatField("x (m)")
    y = models.FloatField("y (m)")
    theta = models.FloatField("heading (rad)", default=0.0)
    is_charger = models.BooleanField("is a charger", default=False, help_text="Robots may be sent here to charge.")
    nodes = models.JSONField(default=dict, help_text="Brand id (as text) → what robots of that brand call this place.")

    class Meta:
        ordering = ["site", "name"]
        constraints = [
            models.UniqueConstraint(fields=["site", "name"], name="place_name_once_per_site"),
            models.UniqueConstraint(fields=["site", "number"], name="place_number_once_per_site"),
        ]

    def __str__(self) -> str:
        return self.name
