"""What a person sees and may do: role says what, membership says where."""

import pytest
from django.contrib.auth.models import AnonymousUser, User

from fleet.history import Origin
from fleet.models import Event, Outbox, Robot, Site
from fleet.people import access
from fleet.people.actions import grant_access
from fleet.sites.actions import create_site
from missions.models import Mission
from tests.actors import SYSTEM

BOSS = Origin("user", "1", "Ada")


def test_a_member_sees_what_is_at_the_own_site_and_nothing_else(mission, other_site, supervisor, other_supervisor):
    for model in (Robot, Mission, Event):
        assert access.at_sites(supervisor, model.objects.all()).exists()
        assert not access.at_sites(other_supervisor, model.objects.exclude(site_id=other_site.pk)).exists()
    assert list(access.at_sites(other_supervisor, Site.objects.all())) == [other_site]


def test_who_has_all_sites_sees_also_those_that_come_later(admin_person):
    new = create_site("Later", by=SYSTEM)
    assert new in access.at_sites(admin_person, Site.objects.all())


@pytest.mark.parametrize("nobody", [AnonymousUser(), User(username="off", is_active=False, is_superuser=True)])
def test_who_is_not_signed_in_or_not_active_sees_nothing(nobody, site):
    assert not access.at_sites(nobody, Site.objects.all()).exists()
    assert not access.may(nobody, "fleet.stop_robot", site.pk)


def test_a_permission_counts_at_the_own_sites_only(supervisor, auditor, site, other_site):
    assert access.may(supervisor, "fleet.stop_robot", site.pk)
    assert not access.may(supervisor, "fleet.stop_robot", other_site.pk)
    assert not access.may(supervisor, "fleet.stop_robot", None)
    assert not access.may(auditor, "fleet.stop_robot", site.pk)


def test_a_model_that_nobody_placed_cannot_be_shown(supervisor):
    with pytest.raises(KeyError):
        access.at_sites(supervisor, Outbox.objects.all())


def test_a_grant_is_an_event_and_replaces_what_was(supervisor, site, other_site):
    grant_access(supervisor, role="auditor", sites=[other_site], by=BOSS)
    again = User.objects.get(pk=supervisor.pk)
    assert access.sites_of(again) == {other_site.pk}
    assert [g.name for g in again.groups.all()] == ["auditor"]
    last = Event.objects.get(aggregate=f"person:{supervisor.pk}", seq=2)
    assert (last.kind, last.actor_name) == ("person.access_changed", "Ada")
    grant_access(again, role="auditor", sites=[other_site], by=BOSS)  # nothing new: no event
    assert Event.objects.filter(aggregate=f"person:{supervisor.pk}").count() == 2


def test_an_empty_role_takes_everything_away(supervisor):
    grant_access(supervisor, role="", by=BOSS)
    again = User.objects.get(pk=supervisor.pk)
    assert (again.is_staff, again.groups.count(), access.sites_of(again)) == (False, 0, frozenset())


def test_an_event_keeps_the_site_that_it_was_about(robot, brand, other_site):
    from fleet.robots.actions import edit_robot

    before = Event.objects.filter(aggregate="robot:RB-001").count()
    edit_robot("RB-001", name="Ella", site=other_site, brand=brand, by=BOSS)
    sites = Event.objects.filter(aggregate="robot:RB-001").order_by("seq").values_list("site_id", flat=True)
    assert list(sites) == [robot.site_id] * before + [other_site.pk]
