"""The live page's socket: lets people in who may look, hands their socket to the hub, and passes on acks.

A plain ASGI application: Channels' consumers would hop through a thread for every message, and no message here needs
the database.
"""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import msgspec
from channels.db import database_sync_to_async

from telemetry.live import access, hub

NOT_UNDERSTOOD = 4400
MESSAGE_MAX = 200  # characters; a browser says nothing but acks


class Ack(msgspec.Struct):
    """Frame `ack` is applied; `again`: it could not be, send everything."""

    ack: int
    again: bool = False


_ack = msgspec.json.Decoder(Ack).decode


async def live_page(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """ASGI application of `/live/ws?site=<id>`; `scope` has user and session."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})  # a browser sees a close code only after that
    code, sites = await database_sync_to_async(access.verdict)(scope["user"])
    if code:
        await send({"type": "websocket.close", "code": code})
        return

    async def send_text(text: str) -> None:
        await send({"type": "websocket.send", "text": text})

    async def close(code: int) -> None:
        with suppress(Exception):  # the browser may have gone; each server has its own exception for that
            await send({"type": "websocket.close", "code": code})

    socket = hub.Socket(send_text, close, scope["session"].session_key, sites, _asked(scope))
    joined = hub.join(socket)
    try:
        while (message := await receive())["type"] == "websocket.receive":
            try:
                ack = _ack(message.get("text") or "") if len(message.get("text") or "") <= MESSAGE_MAX else None
            except msgspec.MsgspecError:
                ack = None
            if ack is None:
                await close(NOT_UNDERSTOOD)
                break
            joined.acked(socket, ack.ack, again=ack.again)
    except asyncio.CancelledError:
        await close(hub.COME_BACK)  # the server goes down
        raise
    finally:
        await hub.leave(joined, socket)


def _asked(scope: dict[str, Any]) -> int | None:
    site = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("site", [""])[0]
    return int(site) if site.isascii() and site.isdigit() and len(site) < 10 else None
