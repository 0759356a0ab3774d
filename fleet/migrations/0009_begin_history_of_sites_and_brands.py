import hashlib
from datetime import UTC, datetime

import msgspec
from django.db import migrations

# What was stored before there was a history of it gets one that begins here. Frozen: how an event was encoded and
# hashed at this version. Triggers are away while migrations run.
encode = msgspec.json.Encoder().encode
PLACE = ("name", "x", "y", "theta", "is_charger", "nodes")
BRAND = (
    "name", "driver", "capabilities", "suspect_after_s", "offline_after_s", "abandon_after_s", "charge_below_pct",
    "charge_until_pct",
)


class Log:
    """Writes the events of one aggregate."""

    def __init__(self, event, aggregate, site_id, now):
        self.event, self.aggregate, self.site_id, self.now = event, aggregate, site_id, now
        self.seq, self.hash = 0, bytes(32)

    def write(self, kind, **data):
        self.seq += 1
        hashed = {
            "aggregate": self.aggregate, "seq": self.seq, "kind": kind, "schema": 1, "data": encode(data).decode(),
            "state_from": "", "state_to": "", "actor_kind": "system", "actor_id": "", "actor_name": "upgrade",
            "cause": "migration:fleet.0009", "trace_id": "", "span_id": "", "occurred_at": self.now,
            "recorded_at": self.now,
        }
        prev, self.hash = self.hash, hashlib.sha256(self.hash + encode(tuple(hashed.values()))).digest()
        self.event.objects.create(**hashed, prev_hash=prev, hash=self.hash, site_id=self.site_id)


def begin(apps, schema_editor):
    get, now = lambda name: apps.get_model("fleet", name), datetime.now(UTC)
    for site in get("Site").objects.order_by("pk"):
        log = Log(get("Event"), f"site:{site.pk}", site.pk, now)
        log.write("site.created", name=site.name)
        for place in get("Place").objects.filter(site=site).order_by("pk"):
            columns = {column: getattr(place, column) for column in PLACE}
            place.number = log.seq + 1
            log.write(
                "site.place_added", places=[{"number": place.number, **columns}], place=place.name,
                what=f"{place.x:g}, {place.y:g}" + (", a charger" if place.is_charger else ""),
            )
            place.save(update_fields=["number"])
        site.version = log.seq
        site.save(update_fields=["version"])
    for brand in get("Brand").objects.order_by("pk"):
        log = Log(get("Event"), f"brand:{brand.pk}", None, now)
        log.write("brand.created", **{column: getattr(brand, column) for column in BRAND})
        brand.version = log.seq
        brand.save(update_fields=["version"])


def forget(apps, schema_editor):
    """Going back: the version before keeps no such history."""
    event, outbox = apps.get_model("fleet", "Event"), apps.get_model("fleet", "Outbox")
    for prefix in ("site:", "brand:"):
        outbox.objects.filter(event__aggregate__startswith=prefix).delete()
        event.objects.filter(aggregate__startswith=prefix).delete()


class Migration(migrations.Migration):

    dependencies = [("fleet", "0008_history_of_sites_and_brands")]

    operations = [migrations.RunPython(begin, forget)]
