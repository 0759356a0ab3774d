"""The form of a site's map, and the picture for whoever may see the site."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from fleet.admin import once, saving, seen
from fleet.history import Origin, by_user
from fleet.models import MapImage, Site
from fleet.people.access import at_sites, may
from fleet.refusals import Refused, to_field
from fleet.sites import actions
from fleet.sites.drawing import drawing
from fleet.sites.maps import Picture, picture_of

M = {"step": "any"}  # metres and radians have as many digits as it takes


class MapForm(forms.Form):
    """A picture, and where it lies; without a picture only where it lies."""

    x = forms.FloatField(
        label="Lower left corner, x (m)", widget=forms.NumberInput(M), initial=0,
        help_text="In the same metres as places and robots.",
    )  # fmt: skip
    y = forms.FloatField(label="Lower left corner, y (m)", widget=forms.NumberInput(M), initial=0)
    m_per_px = forms.FloatField(
        label="Scale (m per pixel)", widget=forms.NumberInput(M), initial=0.05,
        help_text="0.05: twenty pixels are one metre. Mapping robots call it resolution.",
    )  # fmt: skip
    rotation = forms.FloatField(
        label="Rotation (rad)", widget=forms.NumberInput(M), initial=0,
        help_text="About that corner, counter-clockwise.",
    )  # fmt: skip
    picture = forms.FileField(
        widget=forms.FileInput({"accept": "image/png,image/jpeg,image/webp"}),
        help_text="PNG, JPEG or WebP, at most 10 MB and 8000 pixels a side. It is drawn anew: nothing else of the file is kept.",
    )  # fmt: skip
    field_order = ["picture"]

    def __init__(self, *args: Any, site: Site, **kwargs: Any) -> None:
        now = {"x": site.map_x, "y": site.map_y, "m_per_px": site.map_m_per_px, "rotation": site.map_rotation}
        if site.map_sha256:
            now["picture"] = [site.map_sha256]  # so it need not be sent, and another one is noticed
        super().__init__(*args, initial=now, **kwargs)
        if site.map_sha256:
            self.fields["picture"].help_text += " Leave it empty to keep the present one."


def map_form(page: Any, request: HttpRequest, site: Site) -> HttpResponse:
    """A page of `SiteAdmin`."""
    if not may(request.user, "fleet.change_site", site.pk):
        raise PermissionDenied
    sent = (request.POST, request.FILES) if request.method == "POST" else ()
    form = MapForm(*sent, site=site)
    if form.is_valid():
        try:
            picture = _picture(form)
            _, before = saving.change(
                request, site, form, lambda: MapForm(site=Site.objects.get(pk=site.pk)),
                lambda: _save(site, picture, form.cleaned_data, by_user(request.user)),
            )  # fmt: skip
        except Refused as refused:
            to_field(form, refused)
        else:
            if before is None:
                messages.success(
                    request, f"The map of {site} is saved. Check below that the places lie where they should."
                )
            else:
                once.say_again(request, "saved it already")
            return redirect(page.url("change", site))
    if form.errors and "picture" in request.FILES and "picture" not in form.errors:
        form.add_error("picture", "Choose the picture again: no browser keeps it.")
    places = list(site.places.order_by("name"))
    context = {"form": form, "was": seen.of(form), "drawing": drawing(site, places)}
    return page.render(request, "admin/drover/map_form.html", site, context)  # type: ignore[no-any-return]


def _picture(form: MapForm) -> Picture | None:
    """The one that was sent, drawn anew; None when the present one stays."""
    if "picture" not in form.changed_data:
        return None
    upload = form.cleaned_data["picture"]
    try:
        return picture_of(upload, upload.size)
    except Refused as refused:
        raise Refused(f"picture: {refused}") from refused


def _save(site: Site, picture: Picture | None, said: dict[str, Any], by: Origin) -> None:
    at = {name: said[name] for name in ("x", "y", "m_per_px", "rotation")}
    if picture is None:
        actions.place_map(site.pk, **at, by=by)
    else:
        actions.set_map(site.pk, picture, **at, by=by)


@require_safe
def map_picture(request: HttpRequest, site_id: int, sha256: str) -> HttpResponse:
    """The PNG, for ever the same under its hash. 404 for whoever may not see the site."""
    if not may(request.user, "fleet.view_site", site_id):
        raise Http404
    found = at_sites(request.user, MapImage.objects.filter(site=site_id, sha256=sha256)).first()
    if found is None:
        raise Http404
    answer = HttpResponse(bytes(found.png), content_type="image/png")
    answer["Cache-Control"] = "private, max-age=31536000, immutable"
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
