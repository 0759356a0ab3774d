# The workers that live; partitions are shared out among them.

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='WorkerProcess',
            fields=[
                ('name', models.CharField(max_length=80, primary_key=True, serialize=False)),
                ('started_at', models.DateTimeField()),
                ('until', models.DateTimeField()),
            ],
        ),
    ]
