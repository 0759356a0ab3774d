"""Two people who store the same thing at the same moment: the second is told, in the form."""

import pytest

from fleet.admin.users import PersonForm

PASSWORD = "correct horse battery"
USER = {"role": "", "password1": PASSWORD, "password2": PASSWORD}


def test_a_name_that_was_taken_after_the_form_looked_is_an_error_of_the_form(
    client, admin_person, supervisor, monkeypatch
):
    monkeypatch.setattr(PersonForm, "_taken", lambda form, name: False)  # the look came before the other's name
    client.force_login(admin_person)
    for url in ("/admin/auth/user/add/", f"/admin/auth/user/{supervisor.pk}/edit/"):
        answer = client.post(url, {**USER, "username": "Ana" if "add" in url else "Ada"})
        assert answer.status_code == 200 and "Choose another user name" in answer.content.decode()


PLACE = {"name": "Dock A", "x": "0", "y": "0", "theta": "0"}
BRAND = {
    "name": "Haulmate", "driver": "native", "capabilities": "wait", "suspect_after_s": "9", "offline_after_s": "20",
    "abandon_after_s": "60", "charge_until_pct": "80",
}  # fmt: skip


@pytest.mark.parametrize(
    ("page", "data", "said"),
    [
        ("site", {"name": "Hall 1"}, "There is a site Hall 1 already"),
        ("place", PLACE, "Hall 1 has a place Dock A already"),
        ("brand", BRAND, "There is a brand Haulmate already"),
    ],
)
def test_a_name_that_is_taken_is_an_error_at_the_field(client, admin_person, site, brand, page, data, said):
    """The forms do not look beforehand: the database (or the lock of the site) decides, so nobody can come between."""
    client.force_login(admin_person)
    answer = client.post(f"/admin/fleet/{page}/add/", {"site": site.pk} | data)
    assert answer.status_code == 200
    assert said in answer.context["form"].errors["name"][0]
