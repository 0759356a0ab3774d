from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0010_place_number_once'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['recorded_at', 'id'], name='event_recorded'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['kind', 'recorded_at'], name='event_kind'),
        ),
    ]
