"""Staff users and their roles. Nobody can give, or take over, more rights than their own."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.forms import CheckboxSelectMultiple
from django.http import HttpRequest

from fleet.admin.pages import KeptAdmin, ReadOnlyAdmin

admin.site.unregister([User, Group])


@admin.register(User)
class RoleUserAdmin(KeptAdmin, UserAdmin):
    """Only a superuser makes superusers or gives single permissions; everybody else gives roles."""

    actions = None
    list_display = ("username", "first_name", "last_name", "roles", "is_active", "last_login")
    list_filter = ("is_active", "groups")
    filter_horizontal = ()
    role_fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Access", {"fields": ("is_active", "groups")}),
    )

    add_fieldsets = (*UserAdmin.add_fieldsets, ("Access", {"fields": ("groups",)}))

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None or request.user.is_superuser:
            return super().get_fieldsets(request, obj)
        return self.role_fieldsets

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        if not allowed or obj is None or request.user.is_superuser:
            return allowed
        # a password or an e-mail address set for somebody is that somebody's rights
        return not obj.is_superuser and _rights(obj) <= request.user.get_all_permissions()

    def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
        """A role opens these pages too: without them a supervisor could draw up nothing."""
        super().save_related(request, form, formsets, change)
        if not form.instance.is_staff and form.instance.groups.exists():
            form.instance.is_staff = True
            form.instance.save(update_fields=["is_staff"])

    def formfield_for_manytomany(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name == "groups":
            kwargs |= {"label": "Roles", "help_text": "What this person may do. A role opens the admin pages too."}
        if db_field.name == "groups" and not request.user.is_superuser:
            mine = request.user.get_all_permissions()
            groups = Group.objects.prefetch_related("permissions__content_type")
            kwargs["widget"] = CheckboxSelectMultiple
            kwargs["queryset"] = Group.objects.filter(pk__in=[g.pk for g in groups if _given_by(g) <= mine])
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        return ", ".join(g.name for g in user.groups.all()) or ("superuser" if user.is_superuser else "")


@admin.register(Group)
class RoleGroupAdmin(ReadOnlyAdmin, GroupAdmin):
    """Roles are a table in the code (fleet/roles.py); here one can read what each may do."""

    filter_horizontal = ()


def _given_by(group: Group) -> set[str]:
    return {f"{p.content_type.app_label}.{p.codename}" for p in group.permissions.all()}


def _rights(user: User) -> set[str]:
    """All permissions that the user has or would have when made active again."""
    groups = user.groups.prefetch_related("permissions__content_type")
    own = {f"{p.content_type.app_label}.{p.codename}" for p in user.user_permissions.select_related("content_type")}
    return own.union(*(_given_by(g) for g in groups))
