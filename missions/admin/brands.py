"""Brands: here and not in fleet, because what a brand can do are command types."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from fleet.admin.pages import KeptAdmin
from fleet.models import Brand
from missions.command_types import TYPES


class BrandForm(forms.ModelForm):
    capabilities = forms.MultipleChoiceField(
        label="Can do", choices=[(t.name, t.label) for t in TYPES.values()], widget=forms.CheckboxSelectMultiple,
        help_text="Missions for these robots may use only these commands.",
    )  # fmt: skip

    class Meta:
        model = Brand
        fields = ("name", "driver", "capabilities", "suspect_after_s", "offline_after_s", "abandon_after_s")

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        suspect, offline = said.get("suspect_after_s"), said.get("offline_after_s")
        if suspect == 0:
            self.add_error("suspect_after_s", "At least 1 second.")
        if suspect and offline is not None and offline < suspect:
            self.add_error("offline_after_s", "Not before it is suspect.")
        return said


@admin.register(Brand)
class BrandAdmin(KeptAdmin):
    form = BrandForm
    list_display = ("name", "can_do", "driver", "suspect_after_s", "offline_after_s", "abandon_after_s")
    search_fields = ("name",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = list(BrandForm.Meta.fields)
        if not self.has_change_permission(request, obj):
            fields[fields.index("capabilities")] = "can_do"
        return fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("can_do",)

    @admin.display(description="can do")
    def can_do(self, brand: Brand) -> str:
        return ", ".join(TYPES[c].label.lower() if c in TYPES else str(c) for c in brand.capabilities)
