from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("fleet", "0009_begin_history_of_sites_and_brands")]

    operations = [
        migrations.AddConstraint(
            model_name="place",
            constraint=models.UniqueConstraint(fields=("site", "number"), name="place_number_once_per_site"),
        ),
    ]
