"""What a person saw is what they decide on: who saves second is told what somebody else has saved meanwhile.

A form carries a digest of what the row was when the form was shown. A version would not do: a robot's changes with each
word of the robot, and no person has to look again for that. Buttons that set something off carry the version.
"""

import hashlib
from typing import Any

from django.http import HttpRequest

from fleet.refusals import Refused

NAME = "was"  # of the hidden input, templates/admin/drover/_once.html
LONGEST = 60  # characters of a value that is told
OUT_OF_DATE = "This page is out of date: look at it again, then repeat."


def of(form: Any) -> str:
    """What the row is, as this form shows it before anybody types; empty of a form that carries a version."""
    if "version" in form.fields:
        return ""
    said = [(name, _plain(value)) for name, value in _shown(form) if value not in (None, "")]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def check(request: HttpRequest, sent: Any, now: Any) -> None:
    """`sent`: the form that is to be saved; `now`: the same form of the row as it is, under lock. Raises `Refused`.

    A form without a digest (a script, a page of an earlier version) is taken as it is.
    """
    was = request.POST.get(NAME, "")
    if not was or was == of(now):
        return
    sent.initial = now.initial  # sent once more, it is meant
    there = [
        f"{sent.fields[name].label or name.replace('_', ' ')}{_value(value)}" for name, value in _differ(sent, now)
    ]
    raise Refused(
        "Somebody else saved it while this form was open. What you filled in is still here"
        + (f"; otherwise than here there is now: {', '.join(there)}. " if there else ". ")
        + "Save again to have it as you filled it in, or leave this page to keep theirs."
    )


def seen_version(request: HttpRequest) -> int:
    """The version that the user saw, for what must not act on a page that is out of date."""
    try:
        return int(request.POST["version"])
    except (KeyError, ValueError):
        raise Refused(OUT_OF_DATE) from None


def _shown(form: Any) -> list[tuple[str, Any]]:
    return [(name, form.get_initial_for_field(field, name)) for name, field in form.fields.items()]


def _plain(value: Any) -> str:
    return repr(sorted(map(str, value))) if isinstance(value, (list, tuple, set)) else str(value)


def _differ(sent: Any, now: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in _shown(now) if sent.fields[name].has_changed(value, sent[name].data)]


def _value(value: Any) -> str:
    """Of what can be read as it is; keys of other rows say nothing to people."""
    return f" “{value[:LONGEST]}”" if isinstance(value, str) and value else ""
