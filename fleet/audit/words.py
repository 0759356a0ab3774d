"""Words of an event as people read them: they stand in its data, in its kind's text, or are what a code of its data is said as."""

from collections.abc import Iterator
from functools import cache
from string import Formatter

import msgspec
from django.db.models import Q

from fleet.history import AGGREGATES, KINDS, Kind, labels

AROUND = "()“”\"':;,.!?…"  # of a word: it may stand in one place, and what follows it in another


def having(text: str) -> Q:
    """Events whose sentences have each of these words, in any order."""
    found = Q()
    for word in text.split():
        found &= _has((word.strip(AROUND) or word).lower())
    return found


def _has(word: str) -> Q:
    found = Q(data__icontains=msgspec.json.encode(word).decode()[1:-1])
    found |= Q(kind__in=[kind.name for kind in KINDS.values() if not kind.but and word in _fixed(kind.text)])
    for kind in KINDS.values():
        if kind.but:
            found |= _one_of(kind, word)
    for kinds, column, code, said in _codes():
        if word in said:
            found |= Q(kind__in=kinds, data__contains=_pair(column, code))
    return found


def _one_of(kind: Kind, word: str) -> Q:
    """Of a kind with several sentences: those whose own has the word."""
    found, rest = Q(pk__in=()), Q(kind=kind.name)
    for name, value, text in kind.but:
        holds = Q(data__contains=_pair(name, value))
        if value is None:
            holds |= ~Q(data__contains=f'"{name}":')
        if word in _fixed(text):
            found |= rest & holds
        rest &= ~holds
    return found | rest if word in _fixed(kind.text) else found


def _fixed(text: str) -> str:
    """What every sentence of this text has, whatever it is filled with."""
    return "\n".join(literal for literal, *_ in Formatter().parse(text)).lower()


def _pair(name: str, value: object) -> str:
    """As the stored JSON has it."""
    return msgspec.json.encode({name: value}).decode()[1:-1]


@cache
def _codes() -> list[tuple[list[str], str, str, str]]:
    """(kinds that tell it, column, code, as their sentences say it)."""
    return list(_each_code())


def _each_code() -> Iterator[tuple[list[str], str, str, str]]:
    for prefix, aggregate in AGGREGATES.items():
        for field in aggregate.model._meta.concrete_fields:
            kinds = [kind.name for kind in KINDS.values() if _tells(kind, prefix, field.attname)]
            for code, _ in field.flatchoices if kinds else ():
                if isinstance(code, str) and code:
                    yield kinds, field.attname, code, labels(kinds[0], {field.attname: code})[field.attname].lower()


def _tells(kind: Kind, prefix: str, column: str) -> bool:
    texts = (kind.text, *(text for _, _, text in kind.but))
    return kind.name.startswith(f"{prefix}.") and any(f"{{{column}}}" in text for text in texts)
