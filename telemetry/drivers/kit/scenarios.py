"""All that is played with a driver, the plain before the strange. Each raises `Failed`."""

from collections.abc import Callable

from telemetry.drivers.kit import missions, rubbish, trouble
from telemetry.drivers.kit.double import Case

SCENARIOS: tuple[Callable[[Case], None], ...] = (
    missions.a_mission_runs_to_its_end,
    missions.two_robots_at_once,
    trouble.every_message_comes_twice,
    trouble.every_command_comes_twice,
    trouble.messages_come_late_and_all_at_once,
    trouble.the_first_assignment_is_lost,
    trouble.messages_are_lost,
    missions.a_mission_is_cancelled_before_the_robot_has_it,
    missions.a_mission_is_cancelled_in_the_middle_of_a_step,
    missions.a_cancel_is_lost_on_its_way,
    missions.a_mission_is_paused_and_resumed,
    missions.a_robot_is_stopped_and_released,
    missions.a_robot_that_stands_is_stopped,
    missions.a_failed_step_is_tried_again,
    missions.a_step_is_skipped,
    missions.a_question_is_answered,
    trouble.the_gateway_is_restarted_at_rest,
    trouble.the_gateway_is_restarted_in_the_middle,
    trouble.the_gateway_is_away_for_a_step,
    trouble.the_gateway_is_restarted_while_it_cancels,
    trouble.the_robot_is_restarted_in_the_middle,
    rubbish.retained_messages_say_nothing,
    rubbish.messages_too_long_to_be_read_say_that_it_lives,
    rubbish.hostile_messages_cost_nothing_else,
    rubbish.mutilated_messages_raise_nothing,
    trouble.nothing_is_sent_without_bound,
)
