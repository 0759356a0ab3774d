"""Asks drivers, which may be anybody's: whatever one answers, or raises, costs its own robots only.

An answer without an end is given up before it has eaten all memory. A driver that computes without an end is cut short
(where signals can be had: in the main thread, as the gateway's loop is), and left alone for a while. One that sleeps, or
waits for something, is not: the contract forbids it.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from paho.mqtt.client import topic_matches_sub

from telemetry.drivers.contract import Driver, Spec

log = logging.getLogger(__name__)
T = TypeVar("T")
MOST = 10_000  # answers to one question
LONGEST_S = 2.0  # of computing, for one answer; honest ones take a thousandth of it
REST_S = 60.0  # for a driver that was cut short
LONGEST = 65_535  # bytes of a topic, as MQTT has it
_told: set[str] = set()  # what is wrong with a driver's answer about topics is said once


_rests_until: dict[str, float] = {}  # driver → by the monotonic clock
_is_asking = _is_ready = False
_MAIN = threading.main_thread().ident


class _TooLong(BaseException):
    """No `Exception`, which a driver may catch."""


def is_left_alone(driver: Driver) -> bool:
    """It was cut short not long ago."""
    return bool(_rests_until) and time.monotonic() < _rests_until.get(driver.name, 0.0)


def everything(driver: Driver, ask: Callable[..., Iterable[T]], *args: Any) -> list[T]:
    """All of an answer. Raises what the driver raises, ValueError when there is no end to it, TimeoutError when it takes too
    long.
    """
    return in_time(driver, lambda: _all(ask(*args)))


def in_time(driver: Driver, ask: Callable[[], T]) -> T:
    """Raises TimeoutError when it takes too long."""
    global _is_asking
    if not _can_cut_short() or _is_asking:
        return ask()
    try:
        try:
            _is_asking = True
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
            return ask()
        finally:
            _is_asking = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooLong:
        _rests_until[driver.name] = time.monotonic() + REST_S
        log.error("the driver %s was cut short: it computed for more than %.0f s. It is left alone for %.0f s, and its robots"
                  " are not served; all others are", driver.name, LONGEST_S, REST_S)  # fmt: skip
        raise TimeoutError(f"it computed for more than {LONGEST_S:.0f} s") from None


def _all(answer: Iterable[T]) -> list[T]:
    found = list(islice(answer, MOST + 1))
    if len(found) > MOST:
        raise ValueError(f"it answers with more than {MOST} at once")
    return found


def _can_cut_short() -> bool:
    global _is_ready
    if threading.get_ident() != _MAIN or not hasattr(signal, "setitimer"):
        return False
    if not _is_ready:
        signal.signal(signal.SIGVTALRM, _ring)
        _is_ready = True
    return True


def _ring(number: int, frame: Any) -> None:
    if _is_asking:
        raise _TooLong


def topics(driver: Driver, spec: Spec) -> dict[str, int]:
    """Filters of what this robot sends, with their quality of service."""
    return dict(_asked(driver, driver.topics, spec, _filter_and_qos))


def commands(driver: Driver, spec: Spec) -> list[str]:
    return list(_asked(driver, driver.commands, spec, _filter))


def discovery(driver: Driver, profile: Any) -> list[str]:
    return list(_asked(driver, driver.discovery, profile, _filter))


def whose(drivers: Iterable[Driver], topic: str) -> Iterator[tuple[Driver, str, str]]:
    """The drivers that know this topic, each with the address of its robot and the part."""
    for driver in drivers:
        if is_left_alone(driver):
            continue
        try:
            answer = in_time(driver, partial(driver.whose, topic))
            if answer is not None:
                address, part = answer
                yield driver, _text(address), _text(part)
        except Exception as error:  # a driver may raise anything
            _tell(f"the driver {driver.name} cannot say whose a topic is: {_shown(error)}")


def shows(filters: Iterable[str], topic: str) -> bool:
    """Whether a message on this topic comes by one of these."""
    return any(topic_matches_sub(name, topic) for name in filters)


def _asked(driver: Driver, ask: Callable[[Any], Iterable[Any]], about: Any, read: Callable[[Any], T]) -> list[T]:
    try:
        return [read(one) for one in everything(driver, ask, about)]
    except Exception as error:  # a driver may raise anything
        _tell(f"a driver's answer cannot be used ({getattr(ask, '__qualname__', ask)}): {_shown(error)}")
        return []


def _filter_and_qos(one: Any) -> tuple[str, int]:
    name, qos = one
    if qos not in (0, 1):
        raise ValueError(f"{qos!r:.100} is no quality of service")
    return _filter(name), int(qos)


def _filter(name: Any) -> str:
    levels = _text(name).split("/")
    if not 0 < len(name.encode()) <= LONGEST or "\0" in name:
        raise ValueError(f"{name!r:.100} is no filter of topics")
    if any(set(level) & set("+#") and len(level) > 1 for level in levels) or "#" in levels[:-1]:
        raise ValueError(f"{name!r:.100} is no filter of topics")
    return str(name)


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.100} is no text")
    return text


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error!s:.300}".encode("unicode_escape").decode()


def _tell(text: str) -> None:
    if text not in _told and len(_told) < 1000:
        _told.add(text)
        log.error("%s. Its robots may not be heard; all others are", text)
