"""Two people who store the same thing at the same moment: the second is told, in the form."""

import pytest
from django import forms

PLACE = {"name": "Dock A", "x": 0, "y": 0, "theta": 0}
BRAND = {
    "name": "Haulmate", "driver": "native", "capabilities": "wait", "suspect_after_s": 9, "offline_after_s": 20,
    "abandon_after_s": 60,
}  # fmt: skip
PASSWORD = "correct horse battery"
USER = {"username": "Ana", "usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}


@pytest.mark.parametrize(
    ("page", "data"),
    [("fleet/site", {"name": "Hall 1"}), ("fleet/place", PLACE), ("fleet/brand", BRAND), ("auth/user", USER)],
)
def test_a_name_that_was_taken_after_the_form_looked_is_an_error_of_the_form(
    client, admin_person, supervisor, site, brand, monkeypatch, page, data
):
    looks, look = [], forms.ModelForm.full_clean

    def too_early(form):
        """The first look comes before the other's name is stored."""
        looks.append(form)
        if len(looks) == 1:
            monkeypatch.setattr(form._meta.model, "validate_unique", lambda *args, **kwargs: None)
            monkeypatch.setattr(form._meta.model, "validate_constraints", lambda *args, **kwargs: None)
            monkeypatch.setattr(form._meta.model.objects, "filter", form._meta.model.objects.none().filter)
        try:
            look(form)
        finally:
            if len(looks) == 1:
                monkeypatch.undo()
                monkeypatch.setattr(forms.ModelForm, "full_clean", too_early)

    monkeypatch.setattr(forms.ModelForm, "full_clean", too_early)
    client.force_login(admin_person)
    answer = client.post(f"/admin/{page}/add/", {"site": site.pk} | data)
    assert answer.status_code == 200 and "already exists" in answer.content.decode()
    assert len(looks) == 2
