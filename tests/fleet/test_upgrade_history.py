"""Sites, places and brands from before they had a history: the upgrade begins one that folds to the same rows."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from fleet import triggers
from fleet.models import Brand, Event, Place, Site
from fleet.sites import actions as site_actions
from missions import invariants
from tests.actors import SYSTEM

upgrade = import_module("fleet.migrations.0009_begin_history_of_sites_and_brands")


@pytest.fixture
def old(db):
    """Rows as the version before stored them, while triggers are away as in a migration."""
    triggers.drop()
    site = Site.objects.create(name="Hall 9")
    for number, name in enumerate(("Dock A", "Ladestation")):
        Place.objects.create(
            site=site, number=-number % 9 + 90, name=name, x=0.1, y=-2.5, theta=1e-7, is_charger=bool(number)
        )
    Site.objects.create(name="Empty")
    Brand.objects.create(name="Mule", capabilities=["wait"], suspect_after_s=3, charge_below_pct=20)
    return site


def guarded() -> None:
    """The end of the upgrade."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    triggers.create()


def test_what_was_there_has_a_history_that_folds_to_it(old):
    before = list(Place.objects.values("name", "x", "y", "theta", "is_charger"))
    upgrade.begin(apps, None)
    guarded()
    assert invariants.check() == []
    assert list(Place.objects.values("name", "x", "y", "theta", "is_charger")) == before
    assert [e.kind for e in Event.objects.filter(site_id=old.pk)] == [
        "site.created", "site.place_added", "site.place_added",
    ]  # fmt: skip
    site_actions.rename_site(old.pk, name="Hall 10", by=SYSTEM)  # and life goes on from there
    assert invariants.check() == []


def test_going_back_takes_the_history_away_and_leaves_the_rows(old):
    upgrade.begin(apps, None)
    upgrade.forget(apps, None)
    assert not Event.objects.exists()
    assert (Site.objects.count(), Place.objects.count(), Brand.objects.count()) == (2, 2, 1)
