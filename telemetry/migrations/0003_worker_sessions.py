# A worker lives while its database session does.

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0002_worker_processes'),
    ]

    operations = [
        migrations.AddField(
            model_name='workerprocess',
            name='backend',
            field=models.IntegerField(default=0, help_text='Process id of its session in PostgreSQL.'),
        ),
        migrations.AddField(
            model_name='workerprocess',
            name='backend_start',
            field=models.DateTimeField(null=True),
        ),
    ]
