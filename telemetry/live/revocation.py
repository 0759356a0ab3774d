"""Access that was taken away is told to every hub at once, over the channel layer.

A hint: each hub asks the database every 15 s anyway, so a lost message, or a live Redis that is down, costs seconds
and not the promise of I11.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from channels.layers import get_channel_layer
from django.contrib.auth.models import Group, User
from django.contrib.auth.signals import user_logged_out
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save
from redis import RedisError

from fleet.models import Membership, Person
from fleet.signals import person_changed

log = logging.getLogger(__name__)
GROUP = "live.access"
TIMEOUT_S = 0.5
RENEW_S = 3600  # members of a group are forgotten after a day
sender = ThreadPoolExecutor(1, "live-revocation")


async def listen(told: Callable[[], None]) -> None:
    """Call `told` whenever somebody's access may have changed; returns when the link is lost."""
    layer = get_channel_layer()
    try:
        # a plain name: what new_channel() gives shares one lock and one buffer between all loops of the process
        channel = f"live.{uuid4().hex}"
        while True:
            await layer.group_add(GROUP, channel)
            try:
                async with asyncio.timeout(RENEW_S):
                    while True:
                        await layer.receive(channel)
                        told()
            except TimeoutError:
                continue
    except (RedisError, OSError) as error:
        log.debug("lost the channel layer: %s", error)


def tell() -> None:
    """Have all hubs look again who may look. Returns at once: a thread of its own does the sending."""
    sender.submit(_tell)


def _tell() -> None:
    try:
        asyncio.run(_send())
    except (RedisError, OSError, TimeoutError) as error:
        log.warning(
            "the channel layer does not take a message (%s); sockets are checked within 15 s", str(error) or "no answer"
        )


async def _send() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await get_channel_layer().group_send(GROUP, {"type": "access.changed"})


def _changed(*, created: bool = False, action: str = "post_", **_: Any) -> None:
    """Receiver: what a transaction changes counts once it is committed. A new row or permission takes no access away."""
    if not created and action.startswith("post_") and action != "post_add":
        transaction.on_commit(tell)


def _person_changed(**_: Any) -> None:
    tell()  # sent after the commit


def connect() -> None:
    for signal, sender in (
        (user_logged_out, None),
        (post_save, User),
        (post_delete, User),
        (post_delete, Session),
        (post_save, Person),
        (post_save, Membership),
        (post_delete, Membership),
        (m2m_changed, User.groups.through),
        (m2m_changed, User.user_permissions.through),
        (m2m_changed, Group.permissions.through),
    ):
        signal.connect(_changed, sender=sender, dispatch_uid=f"live.revocation.{sender}")
    person_changed.connect(_person_changed, dispatch_uid="live.revocation.person")
