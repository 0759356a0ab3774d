"""The conformance kit: the native driver passes it, and for each scenario there is a driver that does not."""

import importlib.util
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.drivers import kit, native
from telemetry.drivers.contract import Settings, Spec
from telemetry.drivers.native import driver
from tests.telemetry.native_double import NativeRobot

ROBOTS = tuple(Spec(id=f"RB-00{n}", address=f"RB-00{n}", profile=Settings()) for n in (1, 2))
NATIVE = kit.Case(
    driver=driver, double=NativeRobot, robots=ROBOTS, steps=("navigate", "pick", "drop"), answers=True, retries=True
)
named = pytest.mark.parametrize("scenario", kit.SCENARIOS, ids=lambda scenario: scenario.__name__)


@named
def test_the_native_driver_conforms(scenario):
    scenario(NATIVE)


@named
def test_the_native_driver_conforms_with_other_steps(scenario):
    scenario(replace(NATIVE, steps=("navigate", "wait", "charge", "custom")))


# --- every scenario can fail: the example's driver with one defect each

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "drover-trundle"
SOURCE = (EXAMPLE / "drover_trundle.py").read_text()
NATIVE_SOURCE = Path(native.__file__).read_text()


def _cart():
    spec = importlib.util.spec_from_file_location("trundle_cart", EXAMPLE / "trundle_cart.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Cart


Cart = _cart()

# what is wrong with it: the scenario that finds it, what is changed (old, new), what the scenario says
DEFECTS: dict[str, tuple[str, str, str, str]] = {
    "says nothing of the end": (
        "a_mission_runs_to_its_end", '"done": "mission.finished", ', "", "idle and names no mission",
    ),
    "ids of one robot are another's": (
        "two_robots_at_once", "derived(self.robot.id,", "derived('',", "words of two robots have the same id",
    ),
    "one conversation for all": (
        "two_robots_at_once", "return Talk(robot)", "return vars(self).setdefault('talk', Talk(robot))", "not yet: its link begins",
    ),
    "takes a repeated status for the next leg": (
        "every_message_comes_twice", "            mode = MODES[status.state]\n",
        "            mode = MODES[status.state]\n            status.done += vars(self).get('last') == message.payload\n"
        "            self.last = message.payload\n",
        "is guessed",
    ),
    "takes a command once only": (
        "every_command_comes_twice", "        task = f", "        assert not (command.id in self.said or self.said.add(command.id))\n        task = f",
        "`command` raised AssertionError",
    ),
    "takes silence for the end": (
        "messages_come_late_and_all_at_once", "    def hear(self, message, wanted):\n",
        "    def step(self, wanted, now):\n        d = wanted.dispatch\n        late = d and d.accepted and now - self.at > timedelta(seconds=5)\n"
        "        return self.say('mission.cancelled', now, (d.mission, 1)) if late else []\n\n"
        "    def hear(self, message, wanted):\n        self.at = message.at\n",
        "mission.cancelled is guessed",
    ),
    "sends each command once": (
        "the_first_assignment_is_lost", "        task = f",
        "        if command.id in self.said or self.said.add(command.id):\n            return []\n        task = f", "not yet: the robot took it",
    ),
    "says only the newest step": (
        "messages_are_lost", "range(1, status.done + 1)", "range(max(1, status.done), status.done + 1)", "idle and names no mission",
    ),
    "no word on a mission that never came": (
        "a_mission_is_cancelled_before_the_robot_has_it", 'if do == "drop" and task != status.task', "if False", "not yet: mission.cancelled",
    ),
    "cancelled when it is told to": (
        "a_mission_is_cancelled_in_the_middle_of_a_step", "        return [Send(",
        "        drop = self.say('mission.cancelled', now, whose(task)) if order['do'] == 'drop' else ()\n        return [*drop, Send(",
        "mission.cancelled is guessed",
    ),
    "delivered when it is sent": (
        "a_cancel_is_lost_on_its_way", "        return [Send(", "        return [Delivered(command=command.id), Send(", "ended as finished",
    ),
    "never goes on": (
        "a_mission_is_paused_and_resumed", 'else "mission.resumed"', 'else "mission.paused"', "not yet: mission.resumed is said",
    ),
    "a stop is a pause": (
        "a_robot_is_stopped_and_released", '"robot.stop": "halt"', '"robot.stop": "pause"', "not yet: robot.stopped is said",
    ),
    "stopped when it is told to": (
        "a_robot_is_stopped_and_released", "        return [Send(",
        "        halt = self.say('robot.stopped', now, None, {'reply_to': str(command.id)}) if order['do'] == 'halt' else ()\n        return [*halt, Send(",
        "robot.stopped is guessed",
    ),
    "stops at work only": (
        "a_robot_that_stands_is_stopped", 'if do == "halt" and', 'if do == "halt" and about and', "not yet: robot.stopped is said",
    ),
    "forgets which try it was": (
        "a_failed_step_is_tried_again", "attempt=up.attempt,", "attempt=up.attempt and 1,", "said of {1}",
    ),
    "tells everybody to try again": (
        "a_step_is_skipped", "[self._send(command.raw)]", "[self._send(command.raw.replace('skip_step', 'query_state'))]",
        "the robot did the step that it was to skip",
    ),
    "answers no question": (
        "a_question_is_answered", 'if do == "report"', "if False", "not yet: robot.state is said, in reply",
    ),
    "sends to whom it has not heard": (
        "the_gateway_is_restarted_at_rest", "if not self.session or", "if", "is sent before the robot was heard",
    ),
    "knows only missions whose beginning it saw": (
        "the_gateway_is_restarted_in_the_middle", "and status.over != ",
        "and (not status.done or derived(self.robot.id, 'mission.accepted', about, None, {}, '') in self.said) and status.over != ", "idle and names no mission",
    ),
    "ids are made of the session": (
        "the_gateway_is_restarted_in_the_middle", "if again else \"\")", ")", "was said under another id before",
    ),
    "says a step when it sees it done": (
        "the_gateway_is_away_for_a_step", "range(1, status.done + 1)", "range(max(1, status.done), status.done + 1)", "idle and names no mission",
    ),
    "sees a cancel only when it happens": (
        "the_gateway_is_restarted_while_it_cancels", "if about and status.over in ENDS",
        "if about and (status.over == 'done' or status.over and self.count > 1)", "not yet: mission.cancelled",
    ),
    "says a mode once and for all": (
        "a_mission_runs_to_its_end", 'at, None, {"mode": mode}, again=True', 'at, None, {"mode": mode}', "not yet: idle again",
    ),
    "needs another task to believe that one is gone": (
        "the_robot_is_restarted_in_the_middle", "and task != status.task", "and status.task and task != status.task", "not yet: its mission ends",
    ),
    "takes what is retained": (
        "retained_messages_say_nothing", "spoke = [] if message.retained else [", "spoke = [", "may be ages old",
    ),
    "is deaf to what it cannot read": (
        "messages_too_long_to_be_read_say_that_it_lives", "        if message.too_long:\n            return spoke\n", "", "no Link says alive",
    ),
    "does not complain": (
        "hostile_messages_cost_nothing_else", 'return [Complaint(field="status", reason=repr(error)[:200])]', "return []", "nobody complained",
    ),
    "trusts its input": (
        "hostile_messages_cost_nothing_else", "msgspec.MsgspecError, ", "", "`hear` raised",
    ),
    "trusts its words": (
        "mutilated_messages_raise_nothing", ", KeyError)", ")", "`hear` raised KeyError",
    ),
    "complains in words of its own": (
        "mutilated_messages_raise_nothing", 'Complaint(field="status", ', 'Complaint(field=repr(message.payload), ', "different fields",
    ),
    "sends at each status": (
        "nothing_is_sent_without_bound", "        told = Tell(", "        told = Send(topic=f'trundle/{self.robot.address}/do', payload=b'{}') if wanted.dispatch else Tell(", "with 20 times the messages",
    ),
}  # fmt: skip


def defective(old: str, new: str) -> kit.Case:
    """The example's driver with this text changed; or the native one, where it is about what the example does not do."""
    source = SOURCE if old in SOURCE else NATIVE_SOURCE
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in the driver"
    space: dict = {"timedelta": timedelta, "__name__": "defective"}
    exec(compile(source.replace(old, new), "defective", "exec"), space)  # noqa: S102
    return trundle(space["driver"]) if source is SOURCE else replace(NATIVE, driver=space["driver"])


def trundle(driver) -> kit.Case:
    carts = tuple(Spec(id=f"CART-{n}", address=f"T{n}", profile=driver.profile()) for n in (1, 2))
    return kit.Case(driver=driver, double=Cart, robots=carts, steps=("navigate", "pick", "navigate", "drop"))


@pytest.mark.parametrize(("scenario", "old", "new", "says"), DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_found(scenario, old, new, says):
    [play] = [s for s in kit.SCENARIOS if s.__name__ == scenario]
    with pytest.raises(kit.Failed) as error:
        play(defective(old, new))
    assert says in str(error.value).splitlines()[0]


def test_there_is_a_defect_for_each_scenario():
    assert {row[0] for row in DEFECTS.values()} == {scenario.__name__ for scenario in kit.SCENARIOS}


# --- what the bench looks at all the time

HEAR = '        return [Link(hint="alive"), told, *self.words(status, mode, message.at)]'
TOPIC = 'f"trundle/{self.robot.address}/do"'
UNLAWFUL = {
    "no effect": (HEAR, "        return ['alive', told]", "no effect of the contract"),
    "no hint": (HEAR, "        return [Link(hint='awake')]", "there is no hint 'awake'"),
    "no alive": (HEAR, "        return [told, *self.words(status, mode, message.at)]", "no Link says alive"),
    "too much": (HEAR, "        return [told] * 1000", "answered with 1000 effects"),
    "no number": ('"battery": status.charge * 100', '"battery": "full"', "telemetry that is no number"),
    "unknown word": ('"mission.accepted"', '"mission.begun"', "there is no word 'mission.begun'"),
    "lossy word": ('"mission.accepted"', '"robot.heartbeat"', "there is no word 'robot.heartbeat'"),
    "no attempt": (", attempt=1", "", "mission.step_completed does not say its attempt"),
    "wrong data": ('at, None, {"mode": mode}, again', 'at, None, {"mode": "busy"}, again', "the data of robot.state"),
    "no time zone": ("occurred_at=at", "occurred_at=at.replace(tzinfo=None)", "not an aware time"),
    "time to come": ("occurred_at=at", "occurred_at=at + timedelta(seconds=5)", "not yet"),
    "session without seq": ("id=id, type", "session=1, id=id, type", "a session or a seq, and not both"),
    "one id for two words": ("id=id, type", "id=derived('x'), type", "has the id of"),
    "another mission": ("dispatch_no=no,", "dispatch_no=no and 7,", "was never given"),
    "guessed acceptance": (
        "        return [Send(", "        begun = self.say('mission.accepted', now, whose(task)) if order['do'] == 'run' else ()\n        return [*begun, Send(",
        "mission.accepted is guessed",
    ),
    "guessed pause": (
        "        return [Send(", "        word = self.say('mission.paused', now, whose(task)) if order['do'] == 'pause' else ()\n        return [*word, Send(",
        "mission.paused is guessed",
    ),
    "guessed resumption": (
        "        return [Send(", "        word = self.say('mission.resumed', now, whose(task)) if order['do'] == 'resume' else ()\n        return [*word, Send(",
        "mission.resumed is guessed",
    ),
    "guessed rejection": (
        "        return [Send(", "        word = self.say('mission.rejected', now, whose(task), {'why': 'x'}) if order['do'] == 'run' else ()\n        return [*word, Send(",
        "mission.rejected is guessed",
    ),
    "guessed step": ("range(1, status.done + 1)", "range(1, status.done + 2)", "mission.step_completed 1 is guessed"),
    "guessed end": ('status.over in ENDS:\n', 'status.done == 3:\n            status.over = "done"\n', "mission.finished is guessed"),
    "guessed mode": ("mode = MODES[status.state]", "mode = {'idle': 'charging'}.get(MODES[status.state], 'running')", "robot.state is guessed"),
    "undelivered": ("yield Delivered(command=id)", "yield Delivered(command=derived(str(id)))", "and was never given"),
    "another topic": (TOPIC, "'elsewhere'", "none of `commands`"),
    "text for bytes": (".encode())]", ")]", "is no bytes"),
    "no filter": ('[(f"trundle/{robot.address}/status", 0)]', '[("trundle/+/state", 0)]', "`topics` has no filter"),
    "no address": ("tuple(rest.split(", "tuple(rest.lower().split(", "`whose` of trundle/"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), UNLAWFUL.values(), ids=UNLAWFUL)
def test_what_the_contract_does_not_allow_is_found_whatever_is_played(old, new, says):
    case = defective(old, new)
    with pytest.raises(kit.Failed) as error:
        for play in kit.SCENARIOS:
            play(case)
    assert says in str(error.value).splitlines()[0]


def test_what_went_over_the_wire_is_told():
    with pytest.raises(kit.Failed) as error:
        kit.SCENARIOS[0](defective(", attempt=1", ""))
    told = str(error.value).splitlines()
    assert any("driver trundle/T1/do" in line for line in told) and any(
        "robot  trundle/T1/status" in line for line in told
    )
