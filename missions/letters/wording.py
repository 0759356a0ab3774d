"""Dead letters in words: how one stands, and what a person does about it now."""

from collections.abc import Callable

from fleet.models import Command, CommandState
from fleet.wording import Said
from missions.letters.rows import TAKEN
from missions.models import DeadLetter, Direction, LetterState

STATES: dict[str, Said] = {
    LetterState.OPEN: Said("△", "Open", "warn"),
    LetterState.REQUEUED: Said("◌", "Requeued", "info"),
    LetterState.APPLIED: Said("●", "Applied", "ok"),
    LetterState.FAILED: Said("◆", "Failed again", "bad"),
    LetterState.DISCARDED: Said("╳", "Discarded", "off"),
}

_SENT = Said("●", "Done", "ok")  # of a command: taken by its robot, or no longer wanted


def said(letter: DeadLetter) -> Said:
    """How it stands, at a glance."""
    done = letter.state == LetterState.APPLIED and letter.direction == Direction.OUT
    return _SENT if done else STATES[letter.state]


_IN = "Nothing of it was applied. "
_BY_HAND = "Look at the robot's page and at its mission, and put right by hand what it would have changed. "
_OUT = (
    "The robot never took it, so its mission was stopped and aborted. See that the robot is online, then rerun the "
    "mission from its page. Discard this letter with a word about it."
)

# the first that fits says what to do
_NEXT: tuple[tuple[Callable[[DeadLetter], bool], str], ...] = (
    (lambda d: d.state == LetterState.REQUEUED and d.direction == Direction.IN,
     "It waits in the stream of its partition and is applied within seconds, if a worker runs. Look again."),
    (lambda d: d.state == LetterState.REQUEUED and d.direction == Direction.HOOK,
     "It is sent within seconds, if `manage.py followers` runs and its receiver takes it. Look again."),
    (lambda d: d.state == LetterState.REQUEUED, "It is sent as soon as the robot's link is up."),
    (lambda d: d.state in (LetterState.APPLIED, LetterState.DISCARDED), "Nothing. It is kept for who asks later."),
    (lambda d: d.direction == Direction.HOOK,
     "The receiver did not take it for a day. Its page, under Webhooks, says what came back. When it is well, requeue this: "
     "it is sent again with the same id. Nothing in Drover depends on it."),
    (lambda d: not d.body,
     "There is no message to apply: it never came. Look at the robot's page for what it may have been, then discard it."),
    (lambda d: d.direction == Direction.OUT and not d.kind.startswith("mission."),
     "The robot never took it. See that the robot is online, then requeue it: it is sent again under the same message id."),
    (lambda d: d.direction == Direction.OUT, _OUT),
    (lambda d: d.reason.startswith("there is no robot"), _IN + "Enrol a robot of this id, then requeue it, or discard it."),
    (lambda d: d.reason.startswith("it speaks for"),
     _IN + "Two robots share a token, or a gateway mixes them up: give each its own credential. Then discard it."),
    (lambda d: d.tries > 0,
     _IN + _BY_HAND + "It ran into an error of Drover's own: report it with the message id, and requeue it after the update."),
    (lambda d: True,
     _IN + _BY_HAND + "The robot's software says something that Drover does not understand: tell who maintains it. "
     "Requeue it only if Drover was updated since; else discard it."),
)  # fmt: skip


def next_step(letter: DeadLetter) -> str:
    return next(words for fits, words in _NEXT if fits(letter))


def outcome(letter: DeadLetter) -> str:
    """What became of it. Of a command that was requeued, where it is now."""
    if letter.state == LetterState.REQUEUED and letter.direction == Direction.OUT:
        command = Command.objects.filter(pk=letter.msg_id).first()
        return _COMMANDS.get(command.state, "") if command else "Its command is no longer kept."
    return letter.result


_COMMANDS: dict[str, str] = {CommandState.OPEN: "It is to be sent, under the same message id.", **TAKEN}
