"""The last messages of one robot, as they came, with our verdicts: what an integrator looks at first."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import redis
from django.contrib import admin
from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from fleet.admin.records import laid_out
from fleet.admin.timeline import clock
from fleet.columns import storable
from fleet.models import Robot
from fleet.people.access import at_sites
from fleet.wording import Said, ago
from telemetry import snapshots
from telemetry.gateways import heard

# what we answered → how it is said
VERDICTS = {
    "stored": Said("●", "Stored", "ok"),
    "duplicate": Said("○", "Had it before", "off"),
    "seen": Said("●", "Seen", "ok"),
    "welcome": Said("●", "Welcome", "ok"),
    "invalid": Said("◆", "Invalid", "bad"),
    "partly": Said("△", "Taken in part", "warn"),
    "retry": Said("△", "Send again", "warn"),
    "dropped": Said("△", "Dropped", "warn"),
    "": Said("●", "Taken", "ok"),
}


class Line(NamedTuple):
    """One message. `body` is text, laid out if it is JSON; `why` names field and reason, `made` the words it became."""

    day: str
    clock: str
    iso: str
    ago: str
    said: Said
    why: str
    made: str
    type: str
    over: str
    body: str
    cut: int


def last_messages(robot_id: str, now: datetime) -> list[Line] | None:
    """The newest first; None when the live Redis does not answer."""
    try:
        found = snapshots.client().lrange(heard.key(robot_id), 0, -1)
    except (redis.RedisError, OSError):
        return None
    notes = []
    for blob in found:
        with suppress(msgspec.MsgspecError):
            notes.append(heard.decode(blob))
    notes.reverse()
    notes.sort(key=lambda note: note.at_ms, reverse=True)
    return [_line(note, now) for note in notes[: heard.KEPT]]


def _line(note: heard.Noted, now: datetime) -> Line:
    at = datetime.fromtimestamp(note.at_ms / 1000, UTC)
    text = note.raw.decode(errors="replace").replace("\x00", "\ufffd")
    body, kind = laid_out(text), ""
    with suppress(ValueError, RecursionError):
        parsed = json.loads(text)
        kind = str(parsed.get("type", ""))[:60] if isinstance(parsed, dict) else ""
    kind = (kind if storable(kind) else "") or note.part
    said, why, words = _verdict(note.answer)
    made = ", ".join(word for word in words if word != kind)
    cut = max(0, note.size - len(note.raw))
    return Line(f"{at:%Y-%m-%d}", clock(at), at.isoformat(), ago(at, now), said, why, made, kind, note.over, body, cut)


def _verdict(answer: str) -> tuple[Said, str, list[str]]:
    told: Any = {}
    with suppress(ValueError):
        told = json.loads(answer) if answer else {}
    if not isinstance(told, dict):
        told = {}
    verdict = "welcome" if told.get("type") == "welcome" else str(told.get("verdict", ""))
    why = ": ".join(str(told[part]) for part in ("field", "reason") if told.get(part))
    words = told.get("words")
    made = [str(word)[:60] for word in words] if isinstance(words, list) else []
    return VERDICTS.get(verdict, Said("○", verdict[:40], "off")), why, made


@require_safe
@login_required
@permission_required("fleet.view_robot", raise_exception=True)
def messages(request: HttpRequest, robot_id: str) -> HttpResponse:
    """The page."""
    robot = at_sites(request.user, Robot.objects.filter(pk=robot_id)).first()
    if robot is None:
        raise Http404(f"There is no robot {robot_id!r}.")
    lines = last_messages(robot_id, timezone.now())
    context = {
        **admin.site.each_context(request), "opts": Robot._meta, "original": robot, "title": f"Messages of {robot.pk}",
        "lines": lines, "kept": heard.KEPT, "shown": heard.SHOWN,
    }  # fmt: skip
    answer = TemplateResponse(request, "admin/drover/messages.html", context)
    answer["Cache-Control"] = "no-store"
    return answer
