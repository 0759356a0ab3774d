"""Steps change a few times soon after they are made: room in their page, and one index less that begins with the mission."""

import django.db.models.deletion
from django.db import migrations, models


def _mission(related_name: str) -> models.ForeignKey:
    return models.ForeignKey(
        "missions.mission", on_delete=django.db.models.deletion.CASCADE, related_name=related_name, db_index=False
    )


class Migration(migrations.Migration):
    dependencies = [("missions", "0009_letters_of_webhooks")]

    operations = [
        migrations.AlterField("dependency", "mission", _mission("dependencies")),
        migrations.AlterField("step", "mission", _mission("steps")),
        migrations.RunSQL(
            "ALTER TABLE missions_step SET (fillfactor = 60)", "ALTER TABLE missions_step RESET (fillfactor)"
        ),
    ]
