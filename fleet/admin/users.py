"""People: who they are, their role, their sites and their sessions. Nobody gives, or takes over, more than their own."""

from typing import Any

import django.contrib.auth.admin  # noqa: F401  (it registers what is taken out below)
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import password_validators_help_text_html, validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as Invalid
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.admin.buttons import Button
from fleet.admin.kept import ReadOnlyAdmin
from fleet.admin.pages import PageAdmin
from fleet.admin.timeline import stamp, timeline
from fleet.history import by_user
from fleet.models import Person, Role, Site
from fleet.people import actions as people
from fleet.people import sessions, sign_in
from fleet.people.access import EVERY_SITE, sites_of
from fleet.refusals import Refused
from fleet.wording import ago

admin.site.unregister([User, Group])
ROLES = [("", "None: sees and does nothing"), *Role.choices]


class PersonForm(forms.Form):
    """Who, with which role, where. A new person gets a password as well."""

    username = forms.CharField(label="User name", max_length=150, validators=[UnicodeUsernameValidator()])
    first_name = forms.CharField(max_length=150, required=False)
    last_name = forms.CharField(max_length=150, required=False)
    email = forms.EmailField(label="E-mail", required=False, help_text="Alerts are sent here.")
    role = forms.ChoiceField(
        choices=ROLES, required=False,
        help_text="Admins manage, supervisors watch and steer, auditors look and change nothing.",
    )  # fmt: skip
    all_sites = forms.BooleanField(label="All sites, those to come as well", required=False)
    sites = forms.ModelMultipleChoiceField(
        Site.objects.all(), required=False, widget=forms.CheckboxSelectMultiple,
        help_text="What is at other sites does not exist for this person.",
    )  # fmt: skip
    password1 = forms.CharField(
        label="Password", widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}), strip=False,
        help_text=password_validators_help_text_html(),
    )  # fmt: skip
    password2 = forms.CharField(
        label="Password, once more", widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}), strip=False
    )

    def __init__(self, *args: Any, editor: Any, row: User | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row
        if sites_of(editor) is not EVERY_SITE:
            del self.fields["all_sites"]
        if row is not None:
            del self.fields["password1"], self.fields["password2"]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if said.get("role") and not said.get("all_sites") and not said.get("sites"):
            self.add_error("sites", "Choose at least one site, or all sites: without, this person sees nothing.")
        if (name := said.get("username")) and self._taken(name):
            self.add_error("username", f"There is somebody called {name} already. Choose another user name.")
        if "password1" in self.fields and said.get("password1"):
            if said["password1"] != said.get("password2"):
                self.add_error("password2", "That is not the same password. Type it twice.")
            try:
                validate_password(
                    said["password1"], User(username=said.get("username", ""), email=said.get("email", ""))
                )
            except Invalid as error:
                self.add_error("password1", error)
        return said

    def _taken(self, name: str) -> bool:
        return User.objects.filter(username=name).exclude(pk=self.row.pk if self.row else None).exists()


def _manageable(request: HttpRequest, user: User) -> User:
    if not admin.site.get_model_admin(User).has_change_permission(request, user):
        raise PermissionDenied
    return user


def _deactivate(request: HttpRequest, user: User) -> str:
    if user.pk == request.user.pk:
        raise Refused("You cannot deactivate yourself: ask another admin.")
    people.deactivate(_manageable(request, user), by=by_user(request.user))
    return f"{user} is deactivated and signed out everywhere."


def _reactivate(request: HttpRequest, user: User) -> str:
    people.reactivate(_manageable(request, user), by=by_user(request.user))
    return f"{user} may sign in again."


def _unlock(request: HttpRequest, user: User) -> str:
    sign_in.unlock(_manageable(request, user), by=by_user(request.user))
    return f"{user} may try to sign in again at once."


def _end(request: HttpRequest, user: User) -> str:
    """One session, or all."""
    found = sessions.sessions_of(_manageable(request, user))
    if number := request.POST.get("number", ""):
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise Refused("That is no number of a session: use the button beside it.")
        found = found.filter(pk=int(number))
    ended = sessions.end_sessions(found, by=by_user(request.user))
    return f"{ended} session{'' if ended == 1 else 's'} of {user} ended." if ended else "It had ended before."


@admin.register(User)
class PersonAdmin(PageAdmin):
    many = "people"
    change_list_template = "admin/drover/person_list.html"
    page_template = "admin/drover/person.html"
    form_template = "admin/drover/plain_form.html"
    add = "Add a person"
    list_display = ("user_name", "full_name", "role", "where", "condition", "seen")
    list_filter = ("is_active", "person__role")
    search_fields = ("username", "first_name", "last_name", "email")
    ordering = ("username",)
    buttons = (
        Button("unlock", "Unlock", "auth.change_user", _unlock, shown=sign_in.is_locked),
        Button(
            "end", "Sign out everywhere…", "auth.change_user", _end,
            confirm="Every open page of this person closes. The password still works.", yes="Sign out everywhere",
        ),
        Button(
            "deactivate", "Deactivate…", "auth.change_user", _deactivate, look="danger", yes="Deactivate",
            shown=lambda u: u.is_active, confirm="Signed out everywhere, and no sign-in any more. History stays.",
        ),
        Button("reactivate", "Activate again", "auth.change_user", _reactivate, shown=lambda u: not u.is_active),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).select_related("person").prefetch_related("person__memberships__site")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        if not allowed or obj is None or request.user.is_superuser:
            return allowed
        # a password or an e-mail address set for somebody is that somebody's rights
        return not obj.is_superuser and _rights(obj) <= request.user.get_all_permissions()

    def get_urls(self) -> Any:
        own = path(
            "<path:object_id>/password/", self.admin_site.admin_view(self.password_view), name="auth_user_password"
        )
        return [own, *super().get_urls()]

    def password_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        user = _manageable(request, self.found(request, object_id))
        form = SetPasswordForm(user, request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            by = by_user(request.user)
            people.set_password(user, form.cleaned_data["new_password1"], by=by)
            messages.success(request, f"{user} has a new password and was signed out everywhere.")
            return redirect(self.url("change", user))
        context = {"form": form, "heading": f"New password for {user}", "verb": "Set the password"}
        return self.render(request, self.form_template, user, context)

    def forms(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        initial = None
        if row is not None:
            initial = {name: getattr(row, name) for name in people.EDITABLE} | _access(row)
        sent = request.POST if request.method == "POST" else None
        return {"form": PersonForm(sent, editor=request.user, row=row, initial=initial)}

    def form_context(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> dict[str, Any]:
        return {"heading": f"Edit {row}" if row else "Add a person", "verb": "Save" if row else "Add the person"}

    def save_forms(self, request: HttpRequest, row: Any, forms: dict[str, Any]) -> tuple[Any, str]:
        said, by = dict(forms["form"].cleaned_data), by_user(request.user)
        access = {"role": said["role"], "all_sites": said.get("all_sites", False)}
        access["sites"] = [] if access["all_sites"] else [site.pk for site in said["sites"]]
        names = {name: said[name] for name in people.EDITABLE}
        if row is None:
            user = people.add_person(**names, password=said["password1"], **access, by=by)
            return user.pk, f"{user} is added."
        before = _access(row)
        if row.pk == request.user.pk and access != {**before, "sites": sorted(before["sites"])}:
            raise Refused("You cannot change your own role or sites: ask another admin.")
        people.edit_person(row, **names, by=by)
        people.grant_access(row, **access, by=by)
        return row.pk, f"{row} is changed."

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now, mine = timezone.now(), request.session.session_key
        manages = self.has_change_permission(request, row)
        return {
            "role": self.role(row), "where": self.where(row), "condition": self.condition(row), "may_manage": manages,
            "sessions": sessions.in_words(row, mine, now) if manages or row.pk == request.user.pk else [],
            "seen_ago": ago(row.last_login, now) if row.last_login else "",
            **timeline(f"person:{row.pk}", request.user),
        }  # fmt: skip

    def offer(self, request: HttpRequest, row: Any) -> list[Button]:
        return super().offer(request, row) if self.has_change_permission(request, row) else []

    @admin.display(description="user name", ordering="username")
    def user_name(self, user: User) -> str:
        return user.username

    @admin.display(description="name", ordering="last_name")
    def full_name(self, user: User) -> str:
        return user.get_full_name()

    @admin.display(description="role", ordering="person__role")
    def role(self, user: Any) -> str:
        person = _person(user)
        return person.get_role_display() if person and person.role else ("Superuser" if user.is_superuser else "None")

    @admin.display(description="sites")
    def where(self, user: Any) -> str:
        person = _person(user)
        if user.is_superuser or (person and person.all_sites):
            return "All sites"
        return ", ".join(sorted(m.site.name for m in person.memberships.all())) if person else ""

    @admin.display(description="state", ordering="is_active")
    def condition(self, user: User) -> SafeString:
        token, shape, word = ("ok", "○", "Active") if user.is_active else ("off", "╳", "Deactivated")
        return format_html('<span class="said {}"><i>{}</i> {}</span>', token, shape, word)

    @admin.display(description="last sign-in", ordering="last_login")
    def seen(self, user: User) -> SafeString | str:
        return stamp(user.last_login)


@admin.register(Group)
class RoleGroupAdmin(ReadOnlyAdmin):
    """Roles are a table in the code (fleet/people/roles.py); here one can read what each may do."""

    many = "roles"
    list_display = ("name",)
    fields = ("name", "permissions")


def _person(user: Any) -> Person | None:
    return getattr(user, "person", None)


def _access(user: Any) -> dict[str, Any]:
    person = _person(user)
    if person is None:
        return {"role": "", "all_sites": False, "sites": []}
    sites = [m.site_id for m in person.memberships.all()]
    return {"role": str(person.role), "all_sites": person.all_sites, "sites": sites}


def _rights(user: User) -> set[str]:
    """All permissions that the user has or would have when made active again."""
    groups = user.groups.prefetch_related("permissions__content_type")
    own = {f"{p.content_type.app_label}.{p.codename}" for p in user.user_permissions.select_related("content_type")}
    return own.union(*({f"{p.content_type.app_label}.{p.codename}" for p in g.permissions.all()} for g in groups))
