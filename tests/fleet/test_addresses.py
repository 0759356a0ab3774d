"""Address and settings of robots that other makers built: judged by the driver, one robot in service per address."""

import pytest

from fleet.brands.actions import create_brand, edit_brand
from fleet.history import AGGREGATES, fold
from fleet.models import Brand, Event, Robot
from fleet.ports import drivers
from fleet.refusals import Refused
from fleet.robots import actions, addresses
from fleet.robots.facts import Offers
from tests.actors import SYSTEM
from tests.drivers import NATIVE, POST, of_these
from tests.fleet.test_robot_words import say
from tests.together import together

PICTURE = "\u202egnp.exe"


@pytest.fixture(autouse=True)
def two_drivers(monkeypatch):
    monkeypatch.setattr(drivers, "source", of_these(NATIVE, POST))


@pytest.fixture
def foreign(db):
    return create_brand("Forker", driver="post", capabilities=["navigate"], by=SYSTEM)


def enrol(site, brand, id="F-7", address="KIT/0001", **more):
    return actions.enrol_robot(id=id, name=id, site=site, brand=brand, address=address, by=SYSTEM, **more)


def edit(robot_id, **columns):
    row = Robot.objects.get(pk=robot_id)
    told = {"name": row.name, "site": row.site_id, "brand": row.brand_id} | columns
    actions.edit_robot(robot_id, **told, by=SYSTEM)
    return Robot.objects.get(pk=robot_id)


def last(robot_id="F-7"):
    return Event.objects.filter(aggregate=f"robot:{robot_id}").latest("seq")


def test_a_robot_is_enrolled_with_address_and_settings_and_history_has_them(site, foreign):
    enrol(site, foreign, address=" KIT/0001 ", profile={"pause": False})
    robot = Robot.objects.get(pk="F-7")
    assert (robot.address, robot.profile, robot.capabilities) == ("KIT/0001", {"pause": False}, None)
    folded = fold(AGGREGATES["robot"], "F-7", Event.objects.filter(aggregate="robot:F-7")).row
    assert (folded.address, folded.profile) == ("KIT/0001", {"pause": False})


def test_history_from_before_there_were_addresses_folds_to_none(robot):
    events = list(Event.objects.filter(aggregate="robot:RB-001"))
    events[0].data = f'{{"name":"Ella","site_id":{robot.site_id},"brand_id":{robot.brand_id}}}'
    folded = fold(AGGREGATES["robot"], "RB-001", events).row
    assert (folded.address, folded.profile, folded.capabilities, folded.faults) == ("", {}, None, [])
    event = Event.objects.filter(aggregate=f"brand:{robot.brand_id}").get()
    event.data = event.data.replace('"profile":{},', "")
    assert "profile" not in event.data
    assert fold(AGGREGATES["brand"], robot.brand_id, [event]).row.profile == {}


@pytest.mark.parametrize("address", [
    "", "KIT", "KIT/+", "#/1", "a/b\x00", "a\n/b", f"a/{PICTURE}", "a/" + "1" * 200, "a/\ud800", "<img src=x>",
])  # fmt: skip
def test_what_is_no_address_is_refused_at_its_field(site, foreign, address):
    with pytest.raises(Refused, match=r"^address: "):
        enrol(site, foreign, address=address)
    assert not Robot.objects.exists()


@pytest.mark.parametrize("profile", [
    {"nonsense": 1}, {"pause": "maybe"}, {"prefix": "\x00"}, {"prefix": "x" * 17_000}, {"prefix": "\ud800"},
    {"pause": float("nan")}, ["pause"], {"prefix": object()},
])  # fmt: skip
def test_settings_that_the_driver_cannot_do_with_are_refused(site, foreign, profile):
    with pytest.raises(Refused, match=r"^profile: "):
        enrol(site, foreign, profile=profile)
    with pytest.raises(Refused, match=r"^profile: "):
        create_brand("Other", driver="post", profile=profile, by=SYSTEM)
    with pytest.raises(Refused, match=r"^profile: "):
        edit_brand(foreign.pk, profile=profile, by=SYSTEM)
    assert not Robot.objects.exists() and Brand.objects.count() == 1


def test_an_address_belongs_to_one_robot_in_service(site, foreign):
    enrol(site, foreign)
    with pytest.raises(Refused, match=r"^address: F-7 \(F-7\) has KIT/0001 already"):
        enrol(site, foreign, "F-8")
    enrol(site, foreign, "F-8", "KIT/0002")
    with pytest.raises(Refused, match="F-7"):
        edit("F-8", address="KIT/0001")
    actions.retire_robot("F-7", by=SYSTEM)
    edit("F-8", address="KIT/0001")
    with pytest.raises(Refused, match=r"^address: F-8 \(F-8\) has KIT/0001 already"):
        actions.reinstate_robot("F-7", by=SYSTEM)
    edit("F-8", address="KIT/0003")
    actions.reinstate_robot("F-7", by=SYSTEM)
    assert Robot.objects.get(pk="F-7").retired_at is None


def test_nobody_else_gives_an_address_away_while_its_robot_comes_back(site, foreign, monkeypatch):
    actions.enrol_robot(id="F-7", name="", site=site, brand=foreign, address="KIT/1", by=SYSTEM)
    actions.retire_robot("F-7", by=SYSTEM)
    alone, asked = addresses.alone, []
    monkeypatch.setattr(addresses, "alone", lambda: asked.append(alone()))
    actions.reinstate_robot("F-7", by=SYSTEM)
    assert len(asked) == 1


def test_another_drivers_robot_may_be_called_the_same(site, foreign, monkeypatch):
    enrol(site, foreign)
    monkeypatch.setattr(drivers, "source", of_these(NATIVE, POST, POST._replace(name="parcel", label="Parcels")))
    parcels = create_brand("Parcel", driver="parcel", by=SYSTEM)
    enrol(site, parcels, "P-1")
    assert Robot.objects.filter(address="KIT/0001").count() == 2


def test_a_robot_without_an_address_goes_by_its_id(site, foreign, monkeypatch):
    by_id = POST._replace(wrong_address=lambda id, address, profile: "")
    monkeypatch.setattr(drivers, "source", of_these(NATIVE, by_id))
    enrol(site, foreign, "F-7", "")
    with pytest.raises(Refused, match="F-7"):
        enrol(site, foreign, "F-8", "F-7")


def test_where_the_driver_knows_no_addresses_there_are_none(site, brand, foreign):
    with pytest.raises(Refused, match=r"^address: Robots of Haulmate have none"):
        enrol(site, brand)
    enrol(site, foreign, profile={"pause": False})
    robot = edit("F-7", brand=brand.pk)
    assert (robot.address, robot.profile) == ("", {})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("_round", range(3))
def test_two_that_claim_one_address_at_once(site, foreign, _round):
    said = together(lambda: enrol(site, foreign, "F-1"), lambda: enrol(site, foreign, "F-2"))
    [refused] = [one for one in said if isinstance(one, Refused)]
    assert str(refused).startswith("address: ")
    assert Robot.objects.filter(address="KIT/0001").count() == 1


def test_what_is_edited_is_said_in_words(site, other_site, foreign):
    enrol(site, foreign)
    edit("F-7", site=other_site.pk, address="KIT/9", profile={"pause": False})
    said = last().data
    assert "site Hall 1 → Hall 2; address KIT/0001 → KIT/9; settings of its driver" in said
    before = last().pk
    edit("F-7", address="KIT/9")
    assert last().pk == before


def test_under_another_address_it_has_said_nothing_yet(site, foreign):
    robot = enrol(site, foreign)
    assert say(robot, Offers(["drop", "pick"]), Offers(["drop", "pick"])) == ["applied", "redundant"]
    assert robot.capabilities == ["drop", "pick"]
    assert edit("F-7", name="Fork").capabilities == ["drop", "pick"]
    assert edit("F-7", address="KIT/2").capabilities is None


def test_a_new_brand_begins_with_the_timings_of_its_driver(foreign):
    assert (foreign.suspect_after_s, foreign.offline_after_s, foreign.accept_s) == (35, 65, 12)
    assert foreign.strict_sequence is True
    told = create_brand("Quick", driver="post", suspect_after_s=5, strict_sequence=False, by=SYSTEM)
    assert (told.suspect_after_s, told.offline_after_s, told.strict_sequence) == (5, 65, False)


def test_a_brand_whose_robots_are_in_service_keeps_its_driver(site, foreign):
    enrol(site, foreign)
    with pytest.raises(Refused, match=r"^driver: 1 robot of this brand"):
        edit_brand(foreign.pk, driver="native", by=SYSTEM)
    actions.retire_robot("F-7", by=SYSTEM)
    edit_brand(foreign.pk, driver="native", by=SYSTEM)
    with pytest.raises(Refused, match=r"^address: Robots of Forker have none"):
        actions.reinstate_robot("F-7", by=SYSTEM)


def test_a_driver_that_is_not_installed_is_no_choice_but_leaves_what_there_is(site, foreign, monkeypatch):
    robot = enrol(site, foreign)
    monkeypatch.setattr(drivers, "source", of_these(NATIVE))
    with pytest.raises(Refused, match=r"^driver: There is none of that name. Choose one of native\.$"):
        create_brand("Ghost", driver="post", by=SYSTEM)
    edit_brand(foreign.pk, suspect_after_s=3, driver="post", by=SYSTEM)
    assert edit(robot.pk, name="Old friend").address == "KIT/0001"
