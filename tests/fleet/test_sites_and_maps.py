"""Sites, places and maps in admin: what is stored, who hears of it, what a picture may be, and who may look at it."""

import io
import struct
import zlib

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image, PngImagePlugin

from fleet.admin.timeline import timeline
from fleet.history import by_user
from fleet.models import Event, MapImage, Place, Site
from fleet.refusals import Refused
from fleet.sites import actions as site_actions
from fleet.sites import maps
from fleet.sites.drawing import corners, drawing
from fleet.sites.maps import picture_of
from missions import actions as missions
from missions import drawing_up
from tests.actors import STEPS, SYSTEM
from tests.fleet.pictures import png

pytestmark = pytest.mark.django_db
AT = {"x": "-2", "y": "-1.5", "m_per_px": "0.05", "rotation": "0"}


def picture(raw: bytes) -> maps.Picture:
    return picture_of(io.BytesIO(raw), len(raw))


def send(client, site, raw: bytes | None, name="plan.png", **more):
    data = {**AT, **more} | ({"picture": SimpleUploadedFile(name, raw)} if raw is not None else {})
    return client.post(f"/admin/fleet/site/{site.pk}/map/", data)


def test_a_site_is_made_renamed_and_says_so(client, admin_person):
    client.force_login(admin_person)
    answer = client.post("/admin/fleet/site/add/", {"name": "Hall 7"}, follow=True)
    assert "Named poses will be listed here" in answer.content.decode()
    site = Site.objects.get()
    client.post(f"/admin/fleet/site/{site.pk}/edit/", {"name": "Hall 8"})
    words = [e.words for e in client.get(f"/admin/fleet/site/{site.pk}/change/").context["entries"]]
    assert words == ["Made: Hall 7", "Named Hall 8, before Hall 7"]


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\x00b"])
def test_a_bad_name_is_an_error_at_its_field(client, admin_person, name):
    client.force_login(admin_person)
    assert client.post("/admin/fleet/site/add/", {"name": name}).context["form"].errors["name"]
    assert not Site.objects.exists()


def test_a_place_with_a_node_and_its_own_timeline(client, admin_person, site, brand):
    client.force_login(admin_person)
    data = {"name": "Gate", "x": "3", "y": "4", "theta": "1.5", "is_charger": "on", f"node_{brand.pk}": "N1"}
    page = client.post("/admin/fleet/place/add/", {"site": site.pk, **data}, follow=True)
    place = Place.objects.get(name="Gate")
    assert (place.x, place.y, place.theta, place.is_charger, place.nodes) == (
        3.0,
        4.0,
        1.5,
        True,
        {str(brand.pk): "N1"},
    )
    assert "N1" in page.content.decode()
    client.post(f"/admin/fleet/place/{place.pk}/edit/", data | {"x": "3.5", "name": "Gate 2"})
    said = [e.words for e in client.get(f"/admin/fleet/place/{place.pk}/change/").context["entries"]]
    assert said == ["Place Gate added at 3, 4, a charger", "Place Gate changed: name Gate → Gate 2; x (m) 3 → 3.5"]
    assert len(timeline(f"site:{site.pk}", admin_person)["entries"]) == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [("x", ""), ("x", "abc"), ("x", "nan"), ("x", "inf"), ("x", "1e300"), ("theta", "90"), ("name", ""), ("name", "a\x00"),
     ("name", "Dock A"), ("site", "999"), ("site", "")],
)  # fmt: skip
def test_bad_input_of_a_place_is_said_at_its_field(client, admin_person, site, field, value):
    client.force_login(admin_person)
    data = {"site": site.pk, "name": "Gate", "x": "3", "y": "4", "theta": "0", field: value}
    assert client.post("/admin/fleet/place/add/", data).context["form"].errors[field]
    assert site.places.count() == 3


def test_a_node_belongs_to_one_place(site, brand):
    nodes = {str(brand.pk): "N1"}
    site_actions.add_place(site, name="A", x=0, y=0, nodes=nodes, by=SYSTEM)
    with pytest.raises(Refused, match="N1 is the node of A already"):
        site_actions.add_place(site, name="B", x=0, y=0, nodes=nodes, by=SYSTEM)


def test_a_place_that_an_open_mission_names_stays(client, admin_person, supervisor, mission, site):
    client.force_login(admin_person)
    dock = Place.objects.get(site=site, name="Dock A")
    answer = client.post(f"/admin/fleet/place/{dock.pk}/remove/", follow=True)
    assert "open mission “Fetch”" in str(next(iter(answer.context["messages"])))
    missions.dispatch_mission(mission.pk, by=by_user(supervisor))
    missions.cancel_mission(mission.pk, by=by_user(supervisor))
    client.post(f"/admin/fleet/place/{dock.pk}/remove/")
    assert not Place.objects.filter(site=site, name="Dock A").exists()
    assert Event.objects.latest("id").kind == "site.place_removed"
    with pytest.raises(Refused):
        drawing_up.draft_mission(title="t", site=site, robot=None, steps=STEPS, by=SYSTEM)


# maps


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_drawn_anew(client, admin_person, site, kind):
    client.force_login(admin_person)
    assert send(client, site, png(kind=kind)).status_code == 302
    kept = bytes(MapImage.objects.get().png)
    assert Image.open(io.BytesIO(kept)).format == "PNG"
    site.refresh_from_db()
    assert (site.map_width, site.map_height, site.map_x, site.map_y) == (40, 20, -2.0, -1.5)
    answer = client.get(f"/admin/fleet/site/{site.pk}/map/{site.map_sha256}.png")
    assert (answer["Content-Type"], answer["X-Content-Type-Options"], answer.content) == ("image/png", "nosniff", kept)
    assert "immutable" in answer["Cache-Control"]
    page = client.get(f"/admin/fleet/site/{site.pk}/change/").content.decode()
    assert f"/{site.map_sha256}.png" in page and "style=" not in page.split('class="site-map"')[1].split("</svg>")[0]


def test_nothing_of_the_upload_survives():
    told = PngImagePlugin.PngInfo()
    told.add_text("Comment", "SECRET-COMMENT")
    out = io.BytesIO()
    Image.new("RGB", (30, 30)).save(out, "PNG", pnginfo=told)
    raw = out.getvalue() + b"<script>SECRET-TAIL</script>"
    kept = picture(raw).png
    assert b"SECRET" in raw and b"SECRET" not in kept


def bomb() -> bytes:
    """A PNG that says it has 60,000 by 60,000 pixels and would need 10 GB."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (SVG, "SVG"), (b"", "empty"), (b"%PDF-1.4", "Not a PNG"), (b"GIF89a" + b"\0" * 50, "Not a PNG"), (bomb(), "too many pixels"),
        (png()[:60], "no whole"), (png(9000, 1), "9000 by 1"), (png()[:-30] + b"\0" * 30, ""),
    ],
    ids=["svg", "empty", "pdf", "gif", "bomb", "cut off", "too wide", "broken"],
)  # fmt: skip
def test_what_is_no_map_is_refused_in_words(client, admin_person, site, raw, said):
    client.force_login(admin_person)
    answer = send(client, site, raw, "plan.svg")
    if not said:  # some decoders mend it: then what is kept is whole
        assert answer.status_code in (200, 302)
        return
    assert said in answer.context["form"].errors["picture"][0]
    assert not MapImage.objects.exists()


def test_sides_within_their_bounds_may_have_too_many_pixels_together(monkeypatch):
    monkeypatch.setattr(maps, "MAX_PIXELS", 799)
    raw = png(40, 20)
    with pytest.raises(Refused, match="40 by 20 pixels"):
        picture_of(io.BytesIO(raw), len(raw))


def test_a_file_too_large_is_not_even_read(site):
    class Unread(io.BytesIO):
        def read(self, *_):
            raise AssertionError("read")

    with pytest.raises(Refused, match="at most 10 MB"):
        picture_of(Unread(), maps.MAX_BYTES + 1)


@pytest.mark.parametrize(
    ("field", "value"), [("m_per_px", "0"), ("m_per_px", "-1"), ("x", "nan"), ("rotation", "9"), ("y", "")]
)
def test_a_bad_pose_of_the_map_is_said_at_its_field(client, admin_person, site, field, value):
    client.force_login(admin_person)
    assert send(client, site, png(), **{field: value}).context["form"].errors[field]
    assert not MapImage.objects.exists()


def test_the_picture_may_stay_while_its_pose_changes_and_goes_when_asked(client, admin_person, site):
    client.force_login(admin_person)
    assert send(client, site, None).context["form"].errors["picture"]  # the first time it is needed
    send(client, site, png())
    send(client, site, None, rotation="0.5")
    site.refresh_from_db()
    assert (site.map_rotation, MapImage.objects.count()) == (0.5, 1)
    client.post(f"/admin/fleet/site/{site.pk}/remove_map/")
    site.refresh_from_db()
    assert site.map_sha256 == ""
    kinds = list(Event.objects.filter(aggregate=f"site:{site.pk}").order_by("seq").values_list("kind", flat=True))[-3:]
    assert kinds == ["site.map_set", "site.map_placed", "site.map_removed"]


def test_the_picture_is_for_those_who_may_see_the_site(client, site, supervisor, other_supervisor, outsider):
    site_actions.set_map(site.pk, picture(png()), x=0, y=0, m_per_px=0.1, rotation=0, by=SYSTEM)
    url = f"/admin/fleet/site/{site.pk}/map/{Site.objects.get(pk=site.pk).map_sha256}.png"
    for person, status in ((supervisor, 200), (other_supervisor, 404), (outsider, 403)):
        client.force_login(person)
        assert client.get(url).status_code == status
    client.force_login(supervisor)
    assert client.get(url.replace(".png", "0.png")).status_code == 404


def test_the_drawing_holds_every_place_and_corner(site):
    site_actions.set_map(site.pk, picture(png(100, 50)), x=1, y=1, m_per_px=1, rotation=1.5707963, by=SYSTEM)
    site.refresh_from_db()
    assert [(round(x), round(y)) for x, y in corners(site)] == [(1, 1), (1, 101), (-49, 101), (-49, 1)]
    drawn = drawing(site, list(site.places.all()))
    left, top, width, height = map(float, drawn.view.split())
    for x, y in [(m.place.x, m.place.y) for m in drawn.marks] + corners(site):
        assert left < x < left + width and top < -y < top + height
    assert drawing(Site(name="empty"), []) is None


def test_a_name_at_the_edge_of_the_map_leans_inwards():
    places = [Place(name=f"P{x}", x=x, y=0) for x in (0, 10, 20)]
    assert [mark.anchor for mark in drawing(Site(name="Hall"), places).marks] == ["start", "middle", "end"]
