"""Snapshots: the last known live state of each robot, in the live Redis, where everything may be lost at any time.

Keys: `last:<robot>` = "<session> <seq> " + coding byte + payload, kept; `seen` = sorted set of the time when each robot
was last heard, by which presence is judged; `born` = when this Redis was empty;
`gateways` = sorted set of the processes that hold robots' links, by their last sign of life; `deaf` = those that could
not hear their robots, by when they last said so; `gone`, `unanswered` = robots of whose link somebody witnessed the end,
or that did not answer on a link that works, by when: any later sign of life outranks them.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import msgspec
import redis
import redis.asyncio
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.ports.live import Facts

SCHEMA = 1
GRACE_S = 15  # after the live Redis lost its data, silence proves nothing for so long
DIRTY = "dirty"
COMMANDS = "commands"
GATEWAYS = "gateways"
DEAF = "deaf"
GONE, UNANSWERED = "gone", "unanswered"
AT_ONCE = 2000  # robots of one call: Lua unpacks no more than 8,000 values
HINTS_S = 86_400  # how long a witness is remembered


class Snapshot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Live facts as stored. Times in ms since 1970, metres, radians, m/s, per cent. Unknown fields are ignored."""

    v: int = SCHEMA
    at: int  # newest message
    posed_at: int = 0  # newest message that told where it is
    x: float | None = None
    y: float | None = None
    theta: float | None = None
    speed: float | None = None
    battery: float | None = None
    place: str = ""
    skew_s: float | None = None  # its clock is so many s ahead of the gateway's
    carries: str = ""


_packed = msgspec.msgpack.Decoder(Snapshot)
_texted = msgspec.json.Decoder(Snapshot)
CODINGS = {ord("M"): _packed.decode, ord("J"): _texted.decode}
_pack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode

# Newer (session, seq) wins and says so to whoever watches; an older one changes nothing.
# A message tells only some of the facts (a heartbeat has no pose), so it is laid over what is known.
PUT = """
local last = redis.call('GET', KEYS[1])
local session, seq = tonumber(ARGV[1]), tonumber(ARGV[2])
local facts = cmsgpack.unpack(ARGV[3])
if last then
  local s, q, coding, known = string.match(last, '^(%d+) (%d+) (.)(.*)$')
  if s then
    s, q = tonumber(s), tonumber(q)
    if session < s or (session == s and seq <= q) then return 0 end
    if coding == 'M' then
      local ok, old = pcall(cmsgpack.unpack, known)
      if ok and type(old) == 'table' and old.v == facts.v then
        for name, value in pairs(facts) do old[name] = value end
        facts = old
      end
    end
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' M' .. cmsgpack.pack(facts))
redis.call('ZADD', KEYS[2], 'GT', facts.at, ARGV[4])
redis.call('PUBLISH', 'dirty', ARGV[5])
return 1
"""

SEEN = """
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('SET', KEYS[2], now_ms, 'NX')
local function scores(key) if #ARGV > 0 then return redis.call('ZMSCORE', key, unpack(ARGV)) end return {} end
local function all(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
return {now_ms - tonumber(redis.call('GET', KEYS[2])), scores(KEYS[1]), all(KEYS[3]), all(KEYS[4]), scores(KEYS[5]), scores(KEYS[6])}
"""


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def signal(kind: str, entity_id: str, scope: str, at_ms: int) -> list[Any]:
    """One dirty signal: which entity (robot, mission), what of it (live, row), since when. Never the data."""
    return [kind, entity_id, scope, at_ms]


def encode_signals(signals: Iterable[list[Any]]) -> bytes:
    return _json(list(signals))


def _put_arguments(
    robot_id: str, session: int, seq: int, received_at: datetime, facts: dict[str, Any]
) -> tuple[list[str], list[Any]]:
    at = milliseconds(received_at)
    told = {name: facts[name] for name in Facts._fields if facts.get(name) is not None and name != "received_at"}
    told |= {"v": SCHEMA, "at": at} | ({"posed_at": at} if "x" in told or told.get("place") else {})
    keys = [f"last:{robot_id}", "seen"]
    dirty = encode_signals([signal("robot", robot_id, "live", at)])
    return keys, [session, seq, _pack(told), robot_id, dirty]


_PUT_SHA = hashlib.sha1(PUT.encode(), usedforsecurity=False).hexdigest()


async def put(
    client: redis.asyncio.Redis, robot_id: str, session: int, seq: int, received_at: datetime, facts: dict[str, Any]
) -> bool:
    """Store what a lossy message told. False when something newer is there already. Raises `redis.RedisError`.

    `facts`: any of x, y, theta, speed, battery, place, carries; what is absent or None stays as it was.
    """
    keys, arguments = _put_arguments(robot_id, session, seq, received_at, facts)
    try:
        stored = await client.evalsha(_PUT_SHA, len(keys), *keys, *arguments)
    except redis.exceptions.NoScriptError:
        stored = await client.eval(PUT, len(keys), *keys, *arguments)
    return bool(stored)


async def touch(client: redis.asyncio.Redis, robot_id: str, received_at: datetime) -> None:
    """The robot gave a sign of life that carries no facts (hello, a critical message). Raises `redis.RedisError`."""
    await client.zadd("seen", {robot_id: milliseconds(received_at)}, gt=True)


class Put(NamedTuple):
    """One lossy message, as `put` takes it."""

    robot_id: str
    session: int
    seq: int
    received_at: datetime
    facts: dict[str, Any]


async def write(
    client: redis.asyncio.Redis,
    puts: Sequence[Put],
    touches: Mapping[str, datetime],
    hints: Mapping[str, Mapping[str, datetime]] | None = None,
) -> None:
    """Many `put` and `touch` in one round trip; `hints`: `gone` or `unanswered` → robot → when. Raises `redis.RedisError`."""
    calls = [_put_arguments(*put) for put in puts]
    async with client.pipeline(transaction=False) as pipe:
        for keys, arguments in calls:
            pipe.evalsha(_PUT_SHA, len(keys), *keys, *arguments)
        if touches:
            pipe.zadd("seen", {robot_id: milliseconds(at) for robot_id, at in touches.items()}, gt=True)
        for kind, robots in (hints or {}).items():
            if robots:
                pipe.zadd(kind, {robot_id: milliseconds(at) for robot_id, at in robots.items()}, gt=True)
                pipe.zremrangebyscore(kind, "-inf", now_ms() - HINTS_S * 1000)
        replies = await pipe.execute(raise_on_error=False)
    for (keys, arguments), reply in zip(calls, replies, strict=False):
        if isinstance(reply, redis.exceptions.NoScriptError):  # a restart forgot it
            await client.eval(PUT, len(keys), *keys, *arguments)
    for reply in replies:
        if isinstance(reply, Exception) and not isinstance(reply, redis.exceptions.NoScriptError):
            raise reply


def decode(stored: bytes | None) -> Snapshot | None:
    """A stored value; None when there is none, or none that this version understands."""
    if stored is None:
        return None
    try:
        blob = stored.split(b" ", 2)[2]
        found = CODINGS[blob[0]](blob[1:])
    except (IndexError, KeyError, msgspec.MsgspecError):
        return None
    return found if found.v == SCHEMA else None


def _names(robot_ids: Sequence[str]) -> list[str]:
    return [f"last:{r}" for r in robot_ids]


def _decode_all(robot_ids: Sequence[str], values: Sequence[bytes | None]) -> dict[str, Snapshot]:
    found = ((r, decode(value)) for r, value in zip(robot_ids, values, strict=True))
    return {r: snapshot for r, snapshot in found if snapshot is not None}


async def read(client: redis.asyncio.Redis, robot_ids: Sequence[str]) -> dict[str, Snapshot]:
    """Last known snapshots in one MGET. Raises `redis.RedisError`."""
    return _decode_all(robot_ids, await client.mget(_names(robot_ids))) if robot_ids else {}


@cache
def _client(url: str, timeout_s: float) -> redis.Redis:
    # redis-py retries for seconds by itself: whoever waits here must not wait for a dead Redis
    return redis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
    )


def client(timeout_s: float = 0.5) -> redis.Redis:
    """This process's plain client of the live Redis: one short try."""
    return _client(settings.LIVE_REDIS_URL, timeout_s)


def last_known(robot_ids: Sequence[str]) -> dict[str, Snapshot]:
    """Last known snapshots for a page; empty when the live Redis does not answer."""
    if not robot_ids:
        return {}
    try:
        return _decode_all(robot_ids, client().mget(_names(robot_ids)))
    except (redis.RedisError, OSError):
        return {}


SLOW_S, REST_S = 0.3, 2.0  # whoever waited so long for an answer leaves the live Redis alone for a while
_rests_until = 0.0


def facts(robot_ids: list[str]) -> dict[str, Facts]:
    """The port `fleet.ports.live.source`. A live Redis that hangs costs its callers, the worker among them, one wait in a while."""
    global _rests_until
    started = time.monotonic()
    if started < _rests_until:
        return {}
    known = last_known(robot_ids)
    if time.monotonic() - started > SLOW_S:
        _rests_until = time.monotonic() + REST_S
    return {
        r: Facts(
            datetime.fromtimestamp(s.at / 1000, UTC),
            s.x,
            s.y,
            s.theta,
            s.speed,
            s.battery,
            s.place,
            s.skew_s,
            s.carries,
        )
        for r, s in known.items()
    }


class Heard(NamedTuple):
    """When each robot was last heard; one that was never heard is absent.

    `settled` is False while the live Redis may have lost what it knew (restart, flush, failover less than the grace
    ago): a word counts then as ever, silence proves nothing.
    """

    at: dict[str, datetime]
    settled: bool
    gateways: dict[str, datetime] = {}  # last sign of life of each; one that ended in order is absent
    deaf: dict[str, datetime] = {}  # gateway → when it last said that it hears no robot
    gone: dict[str, datetime] = {}  # robot → when its link was seen to end
    unanswered: dict[str, datetime] = {}  # robot → when it had not answered, on a link that works


def last_received(robot_ids: Sequence[str], *, grace_s: float = GRACE_S) -> Heard | None:
    """For the presence sweep. None: the live Redis does not answer."""
    keys = ("seen", "born", GATEWAYS, DEAF, GONE, UNANSWERED)
    scores: list[Any] = []
    gone: list[Any] = []
    unanswered: list[Any] = []
    try:
        for start in range(0, max(1, len(robot_ids)), AT_ONCE):
            some = robot_ids[start : start + AT_ONCE]
            age_ms, seen, beats, deaf, *witnessed = client().eval(SEEN, len(keys), *keys, *some)
            scores, gone, unanswered = scores + seen, gone + witnessed[0], unanswered + witnessed[1]
    except (redis.RedisError, OSError):
        return None
    at, gone, unanswered = (
        {r: _moment(score) for r, score in zip(robot_ids, some, strict=True) if score is not None}
        for some in (scores, gone, unanswered)
    )
    return Heard(at, age_ms >= grace_s * 1000, _by_name(beats), _by_name(deaf), gone, unanswered)


def put_back(now: datetime) -> None:
    """The clock was put back: what was noted by the clock of before counts as of now, or it would outrank all that follows."""
    at = milliseconds(now)
    try:
        for key in ("seen", GATEWAYS, DEAF, GONE, UNANSWERED):
            if later := client().zrangebyscore(key, f"({at}", "+inf"):
                client().zadd(key, dict.fromkeys(later, at), xx=True)
        if int(client().get("born") or 0) > at:  # else its silence would prove nothing until that hour comes
            client().set("born", at)
    except (redis.RedisError, OSError):
        return  # it knows nothing then


def _by_name(pairs: Sequence[bytes]) -> dict[str, datetime]:
    return {name.decode(): _moment(score) for name, score in zip(pairs[::2], pairs[1::2], strict=True)}


def _moment(score: bytes | str) -> datetime:
    return datetime.fromtimestamp(float(score) / 1000, UTC)


def now_ms() -> int:
    return int(time.time() * 1000)
