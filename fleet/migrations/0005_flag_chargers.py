from django.db import migrations

# Places that the demo made are chargers by their name; who drew up others flags them in admin.
FLAG = "UPDATE fleet_place SET is_charger = TRUE WHERE name ~ '^Charger [0-9]+$'"


class Migration(migrations.Migration):

    dependencies = [("fleet", "0004_charging")]

    operations = [migrations.RunSQL(FLAG, migrations.RunSQL.noop)]
