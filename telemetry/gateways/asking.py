"""Asks drivers, which may be anybody's: whatever one answers, or raises, costs its own robots only.

An answer without an end is given up before it has eaten all memory.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from paho.mqtt.client import topic_matches_sub

from telemetry.drivers.contract import Driver, Spec

log = logging.getLogger(__name__)
T = TypeVar("T")
MOST = 10_000  # answers to one question
LONGEST = 65_535  # bytes of a topic, as MQTT has it
_told: set[str] = set()  # what is wrong with a driver's answer about topics is said once


def everything(answer: Iterable[T]) -> list[T]:
    """All of an answer. Raises what the driver raises, and ValueError when there is no end to it."""
    found = list(islice(answer, MOST + 1))
    if len(found) > MOST:
        raise ValueError(f"it answers with more than {MOST} at once")
    return found


def topics(driver: Driver, spec: Spec) -> dict[str, int]:
    """Filters of what this robot sends, with their quality of service."""
    return dict(_asked(driver.topics, spec, _filter_and_qos))


def commands(driver: Driver, spec: Spec) -> list[str]:
    return list(_asked(driver.commands, spec, _filter))


def discovery(driver: Driver, profile: Any) -> list[str]:
    return list(_asked(driver.discovery, profile, _filter))


def whose(drivers: Iterable[Driver], topic: str) -> Iterator[tuple[Driver, str, str]]:
    """The drivers that know this topic, each with the address of its robot and the part."""
    for driver in drivers:
        try:
            answer = driver.whose(topic)
            if answer is not None:
                address, part = answer
                yield driver, _text(address), _text(part)
        except Exception as error:
            _tell(f"the driver {driver.name} cannot say whose a topic is: {_shown(error)}")


def shows(filters: Iterable[str], topic: str) -> bool:
    """Whether a message on this topic comes by one of these."""
    return any(topic_matches_sub(name, topic) for name in filters)


def _asked(ask: Callable[[Any], Iterable[Any]], about: Any, read: Callable[[Any], T]) -> list[T]:
    try:
        return [read(one) for one in everything(ask(about))]
    except Exception as error:
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
