"""A receiver that is there, and a webhook that tells it of missions and robots."""

import ipaddress

import pytest

from telemetry.out.models import Webhook
from telemetry.out.webhooks import actions as webhooks
from tests.actors import SYSTEM
from tests.telemetry.receiver import receiver


@pytest.fixture
def there(settings):
    """Receivers on this machine may be posted to."""
    settings.WEBHOOK_NETS = [ipaddress.ip_network("127.0.0.0/8")]
    with receiver() as one:
        yield one


@pytest.fixture
def hook(there, db) -> Webhook:
    return webhooks.create_webhook(name="MES", url=there.url, site=None, kinds=["mission.*", "robot.*"], by=SYSTEM)
