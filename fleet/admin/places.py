"""Places: a list of named poses with filters, and a page per place with what happened to it."""

import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from fleet.admin.buttons import Button
from fleet.admin.csv_pages import SheetAdmin
from fleet.admin.site_map import M
from fleet.admin.timeline import timeline
from fleet.csv_files.imports import PLACES
from fleet.history import by_user
from fleet.models import Brand, Event, Place, Site
from fleet.sites import actions
from fleet.sites.drawing import drawing


class PlaceForm(forms.Form):
    """A named pose. One line per brand for what its robots call the place."""

    site = forms.ModelChoiceField(
        Site.objects.all(), empty_label="Choose…", help_text="Where it is. A place stays at its site."
    )
    name = forms.CharField(max_length=200, help_text="Missions name it. Once per site.")
    x = forms.FloatField(label="x (m)", widget=forms.NumberInput(M), help_text="Metres, on the site's map.")
    y = forms.FloatField(label="y (m)", widget=forms.NumberInput(M))
    theta = forms.FloatField(
        label="Heading (rad)", initial=0, widget=forms.NumberInput(M),
        help_text="Where a robot that stands here looks: 0 along x, 1.5708 along y.",
    )  # fmt: skip
    is_charger = forms.BooleanField(
        label="Is a charger", required=False, help_text="Robots that are low on battery are sent here, one at a time."
    )

    def __init__(self, *args: Any, place: Place | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if place is not None:
            del self.fields["site"]
        self.brands = {f"node_{brand.pk}": brand for brand in Brand.objects.all()}
        for field, brand in self.brands.items():
            self.fields[field] = forms.CharField(
                label=f"Node for {brand}", required=False, max_length=actions.MAX_NODE,
                help_text="What these robots call it, if they go by node ids. Empty: they go by the pose.",
            )  # fmt: skip

    def told(self) -> dict[str, Any]:
        """What the actions take."""
        said = dict(self.cleaned_data)
        nodes = {str(brand.pk): said.pop(field) for field, brand in self.brands.items()}
        return {**said, "nodes": nodes}


def _remove(request: HttpRequest, place: Place) -> HttpResponse:
    actions.remove_place(place.pk, by=by_user(request.user))
    messages.success(request, f"{place} is removed from {place.site}.")
    return redirect("admin:fleet_site_change", place.site_id)


@admin.register(Place)
class PlaceAdmin(SheetAdmin):
    sheet = PLACES
    change_list_template = "admin/drover/place_list.html"
    page_template = "admin/drover/place.html"
    form_template = "admin/drover/plain_form.html"
    add = "Add a place"
    list_display = ("name", "site", "x", "y", "theta", "charger", "node_ids")
    list_filter = ("site", "is_charger")
    list_select_related = ("site",)
    search_fields = ("name", "site__name")
    buttons = (
        Button(
            "remove", "Remove…", "fleet.change_place", _remove, look="danger", yes="Remove the place",
            confirm="It leaves the map and can be named by no new mission. Missions that have ended keep its name.",
        ),
    )  # fmt: skip

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        initial = request.GET.dict()
        if row:
            initial = {c: getattr(row, c) for c in ("name", "x", "y", "theta", "is_charger")}
            initial |= {f"node_{brand}": node for brand, node in row.nodes.items()}
        sent = request.POST if request.method == "POST" else None
        return {"form": PlaceForm(sent, place=row, initial=initial)}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        told, by = forms["form"].told(), by_user(request.user)
        if row is None:
            made = actions.add_place(**told, by=by)
            return made.pk, f"{made} is added. Missions at {made.site} can name it now."
        actions.edit_place(row.pk, **told, by=by)
        return row.pk, f"{told['name']} is saved. Missions that are under way keep the pose that they were sent with."

    def made_by(self, event: Event) -> Any:
        [added] = json.loads(event.data)["places"]
        site = event.aggregate.partition(":")[2]
        return Place.objects.values_list("pk", flat=True).get(site=site, number=added["number"])

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        brands = {str(b.pk): b.name for b in Brand.objects.filter(pk__in=row.nodes)}
        mine = Q(kind__startswith="site.place_", data__contains=f'"places":[{{"number":{row.number},')
        return {
            "nodes": [(brands.get(brand, brand), node) for brand, node in row.nodes.items()],
            "drawing": drawing(row.site, list(row.site.places.order_by("name")), row.pk),
            **timeline(f"site:{row.site_id}", request.user, mine),
        }

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        if row is None:
            return {"heading": "Add a place", "verb": "Add the place"}
        return {"heading": f"Edit {row}", "verb": "Save", "after": f"At {row.site}."}

    @admin.display(description="charger", ordering="is_charger")
    def charger(self, place: Place) -> str:
        return "yes" if place.is_charger else ""

    @admin.display(description="nodes")
    def node_ids(self, place: Place) -> str:
        return ", ".join(place.nodes.values())
