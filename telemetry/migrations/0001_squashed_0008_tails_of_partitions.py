import django.db.models.deletion
import fleet.models
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('telemetry', '0001_initial'), ('telemetry', '0002_worker_processes'), ('telemetry', '0003_worker_sessions'), ('telemetry', '0004_knocks'), ('telemetry', '0005_forget_processed_messages'), ('telemetry', '0006_followers'), ('telemetry', '0007_irregular_messages'), ('telemetry', '0008_tails_of_partitions')]

    initial = True

    dependencies = [
        ('fleet', '0001_squashed_0019_index_commands_by_age'),
    ]

    operations = [
        migrations.CreateModel(
            name='Follower',
            fields=[
                ('name', models.CharField(max_length=20, primary_key=True, serialize=False)),
                ('position', models.BigIntegerField(default=0, help_text='Id of the last event that this group is done with.')),
                ('moved_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(help_text='Its beginning, UTC.')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fleet.site')),
                ('brand_id', models.BigIntegerField(default=0, help_text='Of the robot at that time; 0: it had no robot.')),
                ('what', models.CharField(help_text='ended, timeout, retry, step', max_length=20)),
                ('detail', models.CharField(help_text='Which end and why, which timeout, …', max_length=60)),
                ('command', models.CharField(default='', help_text='Command type of the step, if it is about one.', max_length=40)),
                ('n', models.BigIntegerField(default=0)),
            ],
            options={
                'verbose_name': 'statistics',
                'verbose_name_plural': 'statistics',
                'ordering': ['-hour'],
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(fields=('hour', 'site', 'brand_id', 'what', 'detail', 'command'), name='tally_once_per_hour')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, validators=[fleet.models.no_nul])),
                ('url', models.CharField(max_length=500, validators=[fleet.models.no_nul])),
                ('site', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='webhooks', to='fleet.site')),
                ('kinds', models.JSONField(default=list, help_text='Event kinds; mission.* means all of missions, * everything.')),
                ('enabled', models.BooleanField(default=True)),
                ('since', models.DateTimeField(help_text='Events recorded before are not for it.', null=True)),
                ('created_by', models.CharField(default='', max_length=200)),
                ('secret', models.CharField(default='', help_text='Signs what is sent. Not part of the history.', max_length=100)),
                ('version', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='WebhookLane',
            fields=[
                ('webhook', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='lane', serialize=False, to='telemetry.webhook')),
                ('failures', models.PositiveIntegerField(default=0, help_text='In a row, of the receiver itself.')),
                ('failing_since', models.DateTimeField(null=True)),
                ('rests_until', models.DateTimeField(help_text='Nothing is tried before.', null=True)),
                ('delivered_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Sending',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sendings', to='telemetry.webhook')),
                ('event_id', models.BigIntegerField(null=True)),
                ('kind', models.CharField(max_length=60)),
                ('aggregate', models.CharField(default='', help_text='What it is about: sent in order.', max_length=80)),
                ('state', models.CharField(choices=[('open', 'Waiting'), ('delivered', 'Delivered'), ('dead', 'Given up'), ('dropped', 'Not wanted any more')], default='open', max_length=10)),
                ('created_at', models.DateTimeField()),
                ('due_at', models.DateTimeField(help_text='Not tried before.')),
                ('give_up_at', models.DateTimeField(help_text='Then it becomes a dead letter.')),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('tried_at', models.DateTimeField(null=True)),
                ('took_ms', models.PositiveIntegerField(null=True)),
                ('status', models.PositiveSmallIntegerField(help_text='Of HTTP; empty when none came.', null=True)),
                ('answer', models.TextField(default='', help_text='Beginning of the answer, or why there was none.')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('state', 'open')), fields=['webhook', 'event_id'], name='sending_open'), models.Index(condition=models.Q(('state', 'open')), fields=['webhook', 'aggregate', 'event_id'], name='sending_in_order')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['open', 'delivered', 'dead', 'dropped'])), name='sending_state_known'), models.UniqueConstraint(fields=('webhook', 'event_id'), name='sending_once')],
            },
        ),
        migrations.CreateModel(
            name='Link',
            fields=[
                ('robot', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='fleet.robot')),
                ('session', models.BigIntegerField(default=0)),
                ('gateway', models.CharField(default='', help_text='Process that holds it, host:pid. Empty: sent back.', max_length=80)),
                ('opened_at', models.DateTimeField(null=True)),
                ('forgotten_session', models.BigIntegerField(db_default=0, default=0, help_text='Of its sessions up to this one not even the watermarks are kept.')),
            ],
        ),
        migrations.CreateModel(
            name='Watermark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('robot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='fleet.robot')),
                ('session', models.BigIntegerField()),
                ('applied_seq', models.BigIntegerField(default=0)),
                ('forgotten_seq', models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('robot', 'session'), name='watermark_once')],
            },
        ),
        migrations.CreateModel(
            name='ProcessedMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('robot_id', models.CharField(max_length=64)),
                ('msg_id', models.UUIDField()),
                ('session', models.BigIntegerField(default=0)),
                ('seq', models.BigIntegerField(default=0)),
                ('verdict', models.CharField(help_text='applied, stale, dead', max_length=20)),
                ('received_at', models.DateTimeField()),
                ('applied_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['robot_id', 'session', 'seq'], name='processed_seq')],
                'constraints': [models.UniqueConstraint(fields=('robot_id', 'msg_id'), name='processed_once')],
            },
        ),
        migrations.CreateModel(
            name='Irregularity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('robot', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, to='fleet.robot')),
                ('kind', models.CharField(help_text='Type of the message; other: one that we do not know.', max_length=60)),
                ('verdict', models.CharField(help_text='duplicate, stale, late, dead', max_length=20)),
                ('count', models.BigIntegerField(default=0)),
                ('first_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'irregularities',
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('robot', 'kind', 'verdict'), name='irregularity_once')],
            },
        ),
        migrations.CreateModel(
            name='Partition',
            fields=[
                ('id', models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ('owner', models.CharField(default='', max_length=80)),
                ('fence', models.BigIntegerField(default=0)),
                ('until', models.DateTimeField(null=True)),
                ('last_entry', models.CharField(db_default='', help_text='The newest entry of the stream that was seen.', max_length=40)),
                ('server', models.CharField(db_default='', help_text='Replication id of the Redis that held it.', max_length=40)),
            ],
        ),
        migrations.CreateModel(
            name='WorkerProcess',
            fields=[
                ('name', models.CharField(max_length=80, primary_key=True, serialize=False)),
                ('started_at', models.DateTimeField()),
                ('until', models.DateTimeField()),
                ('backend', models.IntegerField(default=0, help_text='Process id of its session in PostgreSQL.')),
                ('backend_start', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='FailedTry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('partition', models.PositiveSmallIntegerField()),
                ('entry', models.CharField(help_text='Stream entry id.', max_length=40)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.TextField(default='')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('partition', 'entry'), name='failed_try_once')],
            },
        ),
        migrations.CreateModel(
            name='Knock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('robot', models.CharField(default='', help_text='What it calls itself, or whose token it showed.', max_length=64)),
                ('why', models.CharField(choices=[('none', 'no token'), ('unknown', 'a token that we do not know'), ('revoked', 'a revoked token'), ('retired', 'the token of a retired robot'), ('many', 'many more names')], max_length=10)),
                ('over', models.CharField(help_text='WebSocket, HTTP', max_length=10)),
                ('address', models.CharField(default='', max_length=64)),
                ('count', models.BigIntegerField(default=0)),
                ('first_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'robot that knocked',
                'verbose_name_plural': 'robots that knocked',
                'ordering': ['-last_at'],
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['-last_at'], name='knock_newest')],
                'constraints': [models.UniqueConstraint(fields=('robot', 'why', 'over', 'address'), name='knock_once')],
            },
        ),
    ]
