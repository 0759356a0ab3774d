"""Robots and places as CSV: a preview that changes nothing, errors that name row and column, an exact way there and back."""

import base64

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleet.brands.actions import create_brand
from fleet.csv_files import imports
from fleet.csv_files import table as csv_table
from fleet.history import by_user
from fleet.models import Event, Place, Robot
from fleet.refusals import Refused
from fleet.robots import actions
from fleet.sites.actions import add_place, edit_place
from tests.actors import SYSTEM

pytestmark = pytest.mark.django_db
ROBOTS, PLACES = "/admin/fleet/robot/", "/admin/fleet/place/"


def upload(client, page: str, text: str | bytes):
    raw = text.encode() if isinstance(text, str) else text
    return client.post(f"{page}import/", {"file": SimpleUploadedFile("f.csv", raw)})


def apply(client, page: str, text: str | bytes, **more: str):
    raw = text.encode() if isinstance(text, str) else text
    return client.post(f"{page}import/", {"again": base64.b64encode(raw).decode(), "apply": "1"} | more)


def whats(answer) -> list[str]:
    return [row.what for row in answer.context["plan"]]


ROBOT_FILE = (
    "id,name,site,brand\nRB-001,Ella,Hall 1,Haulmate\nRB-002,Bruno,Hall 1,Haulmate\n"
    "RB-003,Carla,Mars,Haulmate\nRB-4 4,x,Hall 1,Haulmate\n"
)


def test_first_a_preview_then_each_row_by_itself_then_nothing_more(client, admin_person, robot):
    client.force_login(admin_person)
    before = Event.objects.count()
    preview = upload(client, ROBOTS, ROBOT_FILE)
    assert whats(preview) == ["same", "add", "error", "error"]
    assert (Event.objects.count(), Robot.objects.count()) == (before, 1)
    words = [row.words for row in preview.context["plan"]]
    assert words[2].startswith("Row 4, site: there is no site “Mars”")
    assert words[3].startswith("Row 5, id: ")
    done = apply(client, ROBOTS, base64.b64decode(preview.context["again"]))
    assert whats(done) == ["same", "add", "error", "error"]
    assert Robot.objects.get(pk="RB-002").name == "Bruno"
    assert Event.objects.latest("id").actor_name == "Ada"
    again = apply(client, ROBOTS, ROBOT_FILE)
    assert whats(again) == ["same", "same", "error", "error"]
    assert Event.objects.count() == before + 1


def test_what_was_shown_is_done_and_nothing_else(client, admin_person, robot):
    client.force_login(admin_person)
    file = "id,name,site,brand\nRB-001,Ella,,\nRB-002,Bruno,Hall 1,Haulmate\n"
    shown = upload(client, ROBOTS, file)
    actions.edit_robot("RB-001", name="Emma", site=robot.site_id, brand=robot.brand_id, by=SYSTEM)
    again = apply(client, ROBOTS, file, was=shown.context["was"])
    assert (whats(shown), whats(again), again.context["done"]) == (["same", "add"], ["change", "add"], False)
    assert Robot.objects.get().name == "Emma", "nobody was shown that it would be renamed"
    assert "nothing was done" in again.content.decode()
    assert apply(client, ROBOTS, file, was=again.context["was"]).context["done"]
    assert set(Robot.objects.values_list("name", flat=True)) == {"Ella", "Bruno"}


def test_the_second_click_is_told_that_the_first_did_it(client, admin_person, robot):
    client.force_login(admin_person)
    file = "id,name\nRB-001,Emma\nRB 2,x\n"
    was = upload(client, ROBOTS, file).context["was"]
    first, second = (apply(client, ROBOTS, file, was=was) for _ in range(2))
    assert first.context["done"]
    assert "done already" in second.content.decode()
    assert "nothing was done" not in second.content.decode()


def test_what_others_change_while_a_long_file_is_imported_stays(admin_person, robot, site):
    """A row says which columns it changes; it changes no other, however long ago they were read."""
    other = create_brand("Other", driver="native", capabilities=["navigate"], by=SYSTEM)
    place = add_place(site, name="Dock", x=1.0, y=1.0, theta=0.0, is_charger=False, nodes={}, by=SYSTEM)
    robots = csv_table.read(b"id,name\nRB-001,Emma\n", imports.ROBOTS.columns, imports.ROBOTS.required)
    places = csv_table.read(
        f"site,name,x\n{site.name},Dock,2\n".encode(), imports.PLACES.columns, imports.PLACES.required
    )
    plans = [
        imports.planned(sheet, rows, admin_person)
        for sheet, rows in ((imports.ROBOTS, robots), (imports.PLACES, places))
    ]
    actions.edit_robot("RB-001", brand=other, by=SYSTEM)
    edit_place(place.pk, y=5.0, is_charger=True, by=SYSTEM)
    for plan in plans:
        assert [row.what for row in imports.applied(plan, SYSTEM)] == ["change"]
    robot.refresh_from_db()
    place.refresh_from_db()
    assert (robot.name, robot.brand) == ("Emma", other)
    assert (place.x, place.y, place.is_charger) == (2.0, 5.0, True)


def test_a_row_changes_and_retires(client, admin_person, robot):
    client.force_login(admin_person)
    apply(client, ROBOTS, "id,name,retired\nRB-001,Ella 2,yes\n")
    found = Robot.objects.get()
    assert (found.name, bool(found.retired_at)) == ("Ella 2", True)
    apply(client, ROBOTS, "id,retired\nRB-001,no\n")
    assert Robot.objects.get().retired_at is None


def test_a_row_that_cannot_be_done_says_why_and_leaves_the_others(client, admin_person, robot, dispatched):
    client.force_login(admin_person)
    done = apply(client, ROBOTS, "id,name,site,brand,retired\nRB-001,,,,yes\nRB-2,x,Hall 1,Haulmate,no\n")
    assert whats(done) == ["error", "add"]
    assert "has a mission" in done.context["plan"][0].words


PLACE_FILE = 'site,name,x,y,theta,charger,nodes\nHall 1,Dock A,1.5,2,0,no,\nHall 1,New,3,-4.25,1.57,yes,"{""Haulmate"": ""N7""}"\n'


def test_places_with_nodes_of_a_brand(client, admin_person, site, brand):
    client.force_login(admin_person)
    assert whats(upload(client, PLACES, PLACE_FILE)) == ["change", "add"]
    apply(client, PLACES, PLACE_FILE)
    new = Place.objects.get(name="New")
    assert (new.x, new.y, new.is_charger, new.nodes) == (3.0, -4.25, True, {str(brand.pk): "N7"})
    assert Place.objects.get(site=site, name="Dock A").x == 1.5


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("Hall 1,P,x,0,0,no,", "Row 2, x: "), ("Hall 1,P,1,,0,no,", "Row 2, y: "), ("Hall 1,P,1e9,0,0,no,", "Row 2, x: "),
        ("Hall 1,P,nan,0,0,no,", "Row 2, x: "), ("Hall 1,P,1,1,90,no,", "Row 2, theta: "),
        ("Hall 1,P,1,1,0,perhaps,", "Row 2, charger: "), ("Hall 1,P,1,1,0,no,[1]", "Row 2, nodes: "),
        ('Hall 1,P,1,1,0,no,"{""Nobody"": ""1""}"', "Row 2, nodes: "), (",P,1,1,0,no,", "Row 2, site: "),
        ("Hall 1,,1,1,0,no,", "Row 2, name: "), ("Hall 1," + "x" * 201 + ",1,1,0,no,", "Row 2, name: "),
        ('Hall 1,P,1,1,0,no,"' + "[" * 5000 + '"', "Row 2, nodes: "),
    ],
)  # fmt: skip
def test_an_error_names_row_and_column(client, admin_person, site, brand, cells, said):
    client.force_login(admin_person)
    answer = upload(client, PLACES, f"site,name,x,y,theta,charger,nodes\n{cells}\n")
    assert [row.words[: len(said)] for row in answer.context["plan"]] == [said]


def test_the_same_row_twice_is_an_error(client, admin_person, site):
    client.force_login(admin_person)
    assert whats(upload(client, PLACES, "site,name,x,y\nHall 1,P,1,1\nHall 1,P,2,2\n")) == ["add", "error"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "empty"), (b"id\n", "no rows"), (b"id,id\nx,y\n", "twice"), (b"id,colour\nx,red\n", "no column"),
        (b"name\nx\n", "column id is missing"), (b"id,name\nx\n", "Line 2 has 1 cells"), (b"id\n\xff\n", "Line 2 is not UTF-8"),
        ("id\nx\n".encode("utf-16"), "UTF-8"), (b"id\na\x00b\n", "NUL"), (b'id\n"x\n', "quotation mark"),
        (b"id\n" + b"x\n" * 2001, "at most 2000"), (b"id\n" + b"x" * 1_000_001, "at most 1 MB"),
        (b'id\n"' + b"x" * 200_000 + b'"\n', "Line 2: field larger"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_where_and_why(client, admin_person, raw, said):
    client.force_login(admin_person)
    answer = upload(client, ROBOTS, raw)
    assert said in answer.context["form"].errors["file"][0]
    assert "plan" not in answer.context


def test_no_file_and_a_forged_second_step(client, admin_person):
    client.force_login(admin_person)
    for data in ({}, {"apply": "1"}, {"apply": "1", "again": "%%%"}, {"apply": "1", "again": "//8="}):
        assert client.post(f"{ROBOTS}import/", data).context["form"].errors["file"]


@pytest.mark.parametrize("head", ["\ufeffid;name;site;brand", "id,name,site,brand"])
def test_what_spreadsheets_make_is_read(client, admin_person, site, brand, head):
    client.force_login(admin_person)
    mark = ";" if ";" in head else ","
    text = "\r\n".join([head, mark.join(["RB-7", "Größe", "Hall 1", "Haulmate"]), "", ""])
    assert whats(upload(client, ROBOTS, text)) == ["add"]


NASTY = ["=1+1", "+1", "-1", "@x", "'quoted", "''", "'", "'=x", "a,b", 'a "b"', "ä ✓ 🤖", "\tx y", "<b>", "trailing'"]


@pytest.mark.parametrize("name", NASTY)
def test_a_cell_is_harmless_and_comes_back_exact(name):
    text = csv_table.write(["name"], [[name]])
    [row] = csv_table.read(text.encode(), ["name"], ["name"])
    assert row.cells["name"] == name
    cell = text.splitlines()[1].strip('"')
    assert not cell.startswith(("=", "+", "-", "@", "\t"))


def test_there_and_back_changes_nothing(client, admin_person, site, brand, robot):
    for number, name in enumerate(n.strip() for n in NASTY):
        add_place(
            site, name=f"{name}", x=0.1 * number, y=-1 / 3, theta=-1e-7, nodes={str(brand.pk): f"={number}"}, by=SYSTEM
        )
    actions.edit_robot("RB-001", name='=cmd|"/c calc"', site=site, brand=brand, by=SYSTEM)
    client.force_login(admin_person)
    for page in (PLACES, ROBOTS):
        exported = client.get(f"{page}export/")
        assert exported["Content-Disposition"].startswith("attachment")
        rows = whats(upload(client, page, exported.content))
        assert rows and set(rows) == {"same"}


def test_people_of_one_site_take_out_and_bring_in_their_own_only(client, supervisor, site, other_site, brand, robot):
    from tests.actors import user

    here = user("Hana", "admin", other_site)
    client.force_login(here)
    assert "RB-001" not in client.get(f"{ROBOTS}export/").content.decode()
    assert "Hall 1" not in client.get(f"{PLACES}export/").content.decode()
    answer = apply(client, ROBOTS, "id,name,site,brand\nRB-001,Mine,Hall 2,Haulmate\nRB-9,x,Hall 1,Haulmate\n")
    assert whats(answer) == ["error", "error"]
    assert Robot.objects.get().name == "Ella"
    client.force_login(supervisor)
    assert client.get(f"{ROBOTS}import/").status_code == 403


def test_planning_asks_as_much_for_many_rows_as_for_few(admin_person, site, brand, django_assert_max_num_queries):
    rows = [csv_table.Row(n, {"id": f"X{n}", "name": "x", "site": "Hall 1", "brand": "Haulmate"}) for n in range(300)]
    with django_assert_max_num_queries(5):
        assert {p.what for p in imports.planned(imports.ROBOTS, rows, admin_person)} == {"add"}


def test_a_row_that_was_taken_between_preview_and_import(admin_person, site, brand):
    rows = [csv_table.Row(2, {"id": "RB-1", "site": "Hall 1", "brand": "Haulmate"})]
    plan = imports.planned(imports.ROBOTS, rows, admin_person)
    actions.enrol_robot(id="RB-1", name="first", site=site, brand=brand, by=SYSTEM)
    [done] = imports.applied(plan, by_user(admin_person))
    assert (done.what, "already enrolled" in done.words) == ("error", True)
    with pytest.raises(Refused):
        csv_table.read(b"id,x\n", ["id"], ["id"])


def test_addresses_go_in_and_out(client, admin_person, robot, site):
    create_brand("Forker", driver="vda5050", capabilities=["navigate"], by=SYSTEM)
    client.force_login(admin_person)
    rows = "id,name,site,brand,address\n"
    apply(client, ROBOTS, f"{rows}F-7,Fork,Hall 1,Forker,KIT/0001\n")
    assert Robot.objects.get(pk="F-7").address == "KIT/0001"
    done = apply(
        client, ROBOTS,
        f"{rows}F-8,x,Hall 1,Forker,KIT/0001\nF-9,x,Hall 1,Forker,\nRB-001,Ella,Hall 1,Haulmate,KIT/2\nF-7,Fork,Hall 1,Forker,KIT/3\n",
    ).content.decode()  # fmt: skip
    assert "F-7 (Fork) has KIT/0001 already" in done and "Robots of Haulmate have none" in done
    assert Robot.objects.get(pk="F-7").address == "KIT/3"
    assert not Robot.objects.filter(pk__in=["F-8", "F-9"]).exists()
    apply(client, ROBOTS, "id,brand\nF-7,Haulmate\n")
    assert Robot.objects.get(pk="F-7").address == ""
