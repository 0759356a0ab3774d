from django.db import migrations

ROLES = ("admin", "supervisor", "auditor")


def create(apps, schema_editor):
    """The groups; `fleet.roles` gives them their permissions after every migrate."""
    group = apps.get_model("auth", "Group")
    for name in ROLES:
        group.objects.get_or_create(name=name)


def remove(apps, schema_editor):
    apps.get_model("auth", "Group").objects.filter(name__in=ROLES).delete()


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(create, remove)]
