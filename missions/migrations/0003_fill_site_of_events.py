from django.db import migrations

# Triggers are away while migrations run; the column is no part of what is hashed.
FILL = """
UPDATE fleet_event e SET site_id = r.site_id FROM fleet_robot r
 WHERE e.site_id IS NULL AND e.aggregate = 'robot:' || r.id;
UPDATE fleet_event e SET site_id = m.site_id FROM missions_mission m
 WHERE e.site_id IS NULL AND e.aggregate = 'mission:' || m.id;
"""


class Migration(migrations.Migration):

    dependencies = [
        ("fleet", "0003_people_and_site_of_event"),
        ("missions", "0002_index_ended"),
    ]

    operations = [migrations.RunSQL(FILL, migrations.RunSQL.noop)]
