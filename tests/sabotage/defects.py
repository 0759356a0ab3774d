"""Defects that may never pass: each a change of a line or two, and the test that has to turn red by its own assertion."""

from typing import NamedTuple


class Defect(NamedTuple):
    """`edits`: (old, new) in `file`; every old text stands there exactly once."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    test: str


def one(name: str, file: str, old: str, new: str, test: str) -> Defect:
    return Defect(name, file, ((old, new),), test)


DEFECTS = (
    one(
        "no (robot, msg_id) row", "telemetry/worker/batch.py",
        "[now, *rows.arrays(remembered, 6)]", "[now, *rows.arrays(remembered[:0], 6)]",
        "tests/telemetry/test_worker.py::test_a_resend_after_the_window_has_no_second_effect",
    ),
    one(
        "acknowledged before the commit", "telemetry/worker/messages.py",
        "answered = batch.apply(p, self._partitions.fences[p], entries, now=now, hook=self.hook, redelivered=again)",
        "self._acknowledge(p, entries); "
        "answered = batch.apply(p, self._partitions.fences[p], entries, now=now, hook=self.hook, redelivered=again)",
        "tests/telemetry/test_worker.py::test_a_worker_killed_anywhere_loses_nothing_and_doubles_nothing[before_commit]",
    ),
    Defect(
        "a look and then XADD, instead of one script", "telemetry/gateways/intake.py",
        (
            (
                "        parts: dict[int, list[_Waiting]] = {}\n",
                "        seen = [w for w in batch if await self._redis.exists(mark(w.partition, w.robot_id, w.msg_id))]\n"
                "        batch = [w for w in batch if w not in seen]\n"
                "        parts: dict[int, list[_Waiting]] = {}\n",
            ),
            ("redis.call('SET', KEYS[i], 1, 'NX', 'EX', ARGV[1])", "redis.call('SET', KEYS[i], 1, 'EX', ARGV[1])"),
            (
                "        outcome: dict[int, str] = {}\n",
                "        outcome: dict[int, str] = {id(w): 'duplicate' for w in seen}\n",
            ),
        ),
        "tests/telemetry/test_effects.py::test_two_gateways_that_store_the_same_messages_at_once_append_each_once",
    ),
    one(
        "unique by msg_id alone", "telemetry/worker/batch.py",
        "LEFT JOIN telemetry_processedmessage p USING (robot_id, msg_id)",
        "LEFT JOIN telemetry_processedmessage p ON p.msg_id = k.msg_id",
        "tests/telemetry/test_effects.py::test_two_robots_may_use_the_same_msg_id_and_both_count",
    ),
    one(
        "fence not checked", "telemetry/partitions.py",
        "        if answer.fetchone() is None:\n", "        if answer.fetchone() is None and False:\n",
        "tests/telemetry/test_worker.py::test_a_worker_that_lost_its_partition_in_the_middle_writes_nothing",
    ),
    one(
        "fence checked without FOR SHARE", "telemetry/partitions.py",
        "AND fence = %s FOR SHARE", "AND fence = %s",
        "tests/telemetry/test_partitions.py::test_a_partition_is_not_taken_in_the_middle_of_its_owners_batch",
    ),
    one(
        "attempt ignored", "missions/decide/receipts.py",
        "(not done and fact.attempt != (step.attempt or 1))", "False",
        "tests/missions/test_any_order.py"
        "::test_a_failure_of_an_attempt_that_was_not_given_is_stale_also_before_its_turn[9]",
    ),
    one(
        "dispatch_no ignored", "missions/decide/__init__.py",
        "if not mission.dispatched_at or fact.dispatch_no != mission.dispatch_no:", "if not mission.dispatched_at:",
        "tests/missions/test_any_order.py::test_receipts_of_another_dispatch_change_nothing[99]",
    ),
    one(
        "deadline not gated", "telemetry/worker/due.py",
        "            if progress.applied(progress.last):\n", "            if True:\n",
        "tests/telemetry/test_due.py::test_it_does_not_fire_while_something_older_is_not_applied",
    ),
    one(
        "stop not waited for", "missions/decide/ending.py",
        "    if not mission.dispatched_at or not mission.assign_sent:\n", "    if True:\n",
        "tests/missions/test_stop_before_final.py::test_cancel_waits_for_the_robots_word",
    ),
    one(
        "hold not set", "missions/decide/ending.py",
        "    change.follow.append(\n", "    (lambda fact: None)(\n",
        "tests/telemetry/test_effects.py::test_a_robot_that_never_confirms_a_stop_gets_no_new_work",
    ),
    one(
        "version not checked", "missions/locked.py",
        "if version is not None and version != change.row.version:", "if False:",
        "tests/missions/test_what_was_seen.py::test_what_was_decided_on_an_older_version_does_nothing[dispatch]",
    ),
    one(
        "event hash not chained", "fleet/history.py",
        "hashlib.sha256(prev_hash + _encode(fields))", "hashlib.sha256(_encode(fields))",
        "tests/fleet/test_history.py::test_a_hash_covers_the_one_before_and_every_stored_field[prev]",
    ),
    one(
        "implied receipt for a pick", "missions/decide/moving.py",
        "if current(change).confirm or mission", "if mission",
        "tests/model/test_only_its_own_word.py::test_no_later_word_implies_it[pick-a later step]",
    ),
    one(
        "transport try counted while offline", "telemetry/gateways/link.py",
        "        if self.silent(now):\n", "        if False:\n",
        "tests/telemetry/test_one_link.py"
        "::test_a_robot_that_is_silent_is_sent_nothing_but_stops_until_it_is_heard_again",
    ),
    one(
        "transport try counted that never left", "telemetry/gateways/link.py",
        "            sending.sent -= 1\n", "            sending.sent -= 0\n",
        "tests/telemetry/test_one_link.py::test_what_could_not_leave_is_no_try",
    ),
    one(
        "acceptance try counted while offline", "missions/decide/handing.py",
        "if not fact.online or clocks.suspended(mission):", "if clocks.suspended(mission):",
        "tests/missions/test_deadlines.py::test_accepted_is_not_counted_against_a_robot_that_is_not_online",
    ),
    one(
        "VDA 5050: a time without a zone stays without one", "telemetry/drivers/vda5050/reading.py",
        "at.replace(tzinfo=UTC) if at.tzinfo is None else", "at if at.tzinfo is None else",
        "tests/telemetry/vda5050/test_habits.py::test_a_time_without_a_zone_is_utc",
    ),
    one(
        "VDA 5050: what is not released counts as released", "telemetry/drivers/vda5050/reading.py",
        "one.sequence, one.released is not False)", "one.sequence, True)",
        "tests/telemetry/vda5050/test_habits.py::test_what_is_not_released_is_read_as_that",
    ),
    one(
        "VDA 5050: reached nodes are still ahead", "telemetry/drivers/vda5050/standing.py",
        "            reached = node.sequence\n", "            reached = None\n",
        "tests/telemetry/vda5050/test_habits.py"
        "::test_a_node_that_is_reached_and_still_named_keeps_it_from_nothing",
    ),
    one(
        "VDA 5050: the last node counts whatever its sequence", "telemetry/drivers/vda5050/standing.py",
        "(told is None or told == node.sequence)", "True",
        "tests/telemetry/vda5050/test_habits.py"
        "::test_the_last_node_of_the_order_before_is_not_reached_in_this_one",
    ),
    one(
        "VDA 5050: an instant action that waits makes busy", "telemetry/drivers/vda5050/standing.py",
        'action.status != "WAITING" or action.type not in INSTANT', "True",
        "tests/telemetry/vda5050/test_habits.py"
        "::test_an_instant_action_that_waits_for_ever_keeps_it_from_nothing",
    ),
    one(
        "VDA 5050: any error that names an order rejects it", "telemetry/drivers/vda5050/meaning.py",
        "if picture.order_id == order_id and picture.order_update_id >= update:", "if False:",
        "tests/telemetry/vda5050/test_habits.py::test_an_error_about_an_update_that_is_behind_it_rejects_nothing",
    ),
    one(
        "VDA 5050: an order is sent again with each state", "telemetry/drivers/vda5050/orders.py",
        "        elif not known.gone and self._tries.take(now):\n", "        elif not known.gone:\n",
        "tests/telemetry/vda5050/test_driving.py::test_states_in_between_make_nothing_be_sent_again",
    ),
    one(
        "VDA 5050: a node of the order before counts", "telemetry/drivers/vda5050/receipts.py",
        "    if any(edge.sequence is not None and edge.sequence < last for edge in picture.edge_states):\n",
        "    if False:\n",
        "tests/telemetry/vda5050/test_receipts.py::test_what_a_state_says[the same node in the order before]",
    ),
    one(
        "VDA 5050: cancelled when it was told to", "telemetry/drivers/vda5050/cancels.py",
        "            elif heard:\n                yield from self._say(command, {}, now)\n",
        "            if heard:\n                yield from self._say(command, {}, now)\n",
        "tests/telemetry/vda5050/test_cancelling.py::test_a_cancel_that_is_never_answered_is_never_said_to_be_done",
    ),
    one(
        "VDA 5050: an idle robot is sent a cancel", "telemetry/drivers/vda5050/cancels.py",
        "            if known.profile.idle_cancel:\n", "            if True:\n",
        "tests/telemetry/vda5050/test_cancelling.py::test_an_idle_robot_is_sent_no_cancel_even_if_the_site_would",
    ),
    one(
        "VDA 5050: what people brought about is a failure", "telemetry/drivers/vda5050/receipts.py",
        "    if shown.failed is not None and not withheld:\n", "    if shown.failed is not None:\n",
        "tests/telemetry/vda5050/test_stopping.py::test_what_was_begun_when_its_order_had_to_be_ended_has_failed",
    ),
    one(
        "VDA 5050: it goes on with a step that it has done", "telemetry/drivers/vda5050/wishes.py",
"        if due.step != following.first:\n", "        if False:\n",
        "tests/telemetry/vda5050/test_receipts.py"
        "::test_what_it_has_done_is_not_begun_again_because_the_site_is_behind[2-False]",
    ),
    one(
        "VDA 5050: a stop waits for a pause for ever", "telemetry/drivers/vda5050/stops.py",
        "        elif not picture.paused and not idle(picture) and self._waited(now):\n", "        elif False:\n",
        "tests/telemetry/vda5050/test_stopping.py"
        "::test_a_stop_that_a_pause_does_not_bring_about_ends_the_order[profile0-habits0-2]",
    ),
    one(
        "VDA 5050: an update leaves out the last node of the base", "telemetry/drivers/vda5050/plan.py",
        "    begin = after if update else 0\n", "    begin = after + 1 if update else 0\n",
        "tests/telemetry/vda5050/test_driving.py::test_what_is_ahead_is_released_one_drive_after_the_other",
    ),
    one(
        "VDA 5050: what could not be read counts as empty", "telemetry/drivers/vda5050/meaning.py",
        "    if unreadable(picture):\n        return None\n    if not automatic",
        "    if not automatic",
        "tests/telemetry/vda5050/test_habits.py::test_a_garbled_list_of_nodes_does_not_make_it_idle",
    ),
    one(
        "VDA 5050: a stop leaves a resume on its way", "telemetry/drivers/vda5050/stops.py",
        '            self._errands.drop("stopPause")\n', "",
        "tests/telemetry/vda5050/test_stopping.py::test_a_stop_takes_back_a_resume_that_has_not_arrived",
    ),
    one(
        "VDA 5050: an order into an emergency stop", "telemetry/drivers/vda5050/wishes.py",
        "if not automatic(picture) or picture.e_stopped:", "if not automatic(picture):",
        "tests/telemetry/vda5050/test_receipts.py::test_no_order_is_given_to_a_robot_that_people_hold[more1-False]",
    ),
    one(
        "VDA 5050: a charge that failed counts", "telemetry/drivers/vda5050/receipts.py",
        'state.status not in ("WAITING", "FAILED")', 'state.status != "WAITING"',
        "tests/telemetry/vda5050/test_receipts.py"
        "::test_charging_is_over_when_the_battery_says_so[80.0-True-FAILED-False]",
    ),
    one(
        "VDA 5050: a resume does not give again what had not begun", "telemetry/drivers/vda5050/wishes.py",
        " and not (resuming and not shown.failed.begun)", "",
        "tests/telemetry/vda5050/test_receipts.py"
        "::test_a_resume_gives_again_what_had_not_begun_when_its_order_was_ended[1-picture0-True]",
    ),
    one(
        "a question put off by each further word", "missions/decide/clocks.py",
        "    if mission.gap_due_at or suspended(mission) or not decides:\n",
        "    if suspended(mission) or not decides:\n",
        "tests/missions/test_implied_receipts.py::test_more_words_before_their_turn_put_the_question_off_no_longer",
    ),
    one(
        "what is waited for is said ever more seldom", "missions/decide/requests.py",
        "min(max(waited_s, timings.WAITS_LONG_S), timings.WAITS_MOST_S)", "max(waited_s, timings.WAITS_LONG_S)",
        "tests/missions/test_queue_rules.py"
        "::test_what_waits_for_days_is_said_less_and_less_often_but_never_not_at_all",
    ),
    one(
        "a failed dependency ends what runs", "missions/decide/requests.py",
        "    if change.row.dispatched_at:\n        return Verdict.REDUNDANT\n    change.record(\"mission.dependency_failed\"",
        "    change.record(\"mission.dependency_failed\"",
        "tests/missions/test_queue_rules.py"
        "::test_what_runs_goes_on_though_what_it_came_after_is_said_to_have_failed",
    ),
    one(
        "a hand-over moves all that a mission comes after", "missions/decide/requests.py",
        "        if dependency.on_id == fact.on\n", "",
        "tests/missions/test_handing_over.py::test_who_comes_after_several_comes_after_the_others_as_before",
    ),
    one(
        "important work is not told apart", "missions/queue/choosing.py",
        "mission.commands, mission.important, mission.not_robot)", "mission.commands, mission.not_robot)",
        "tests/missions/test_queue_rules.py"
        "::test_important_work_may_have_a_charging_robot_that_other_work_waits_for",
    ),
    one(
        "an ack forgets a snapshot that is due", "telemetry/live/hub.py",
        "socket.snapshot_due |= again", "socket.snapshot_due = again",
        "tests/telemetry/test_board.py::test_an_ack_leaves_a_snapshot_due_that_was_due",
    ),
    one(
        "Resume without the version that was seen", "templates/fleet/_robot.html",
        "/resume?version={{ r.mission_version }}", "/resume",
        "tests/telemetry/test_fragments.py::test_what_a_card_offers_and_stop_always[row5-offered5]",
    ),
    one(
        "access is told as taken away before the commit", "telemetry/live/revocation.py",
        "        transaction.on_commit(tell)\n", "        tell()\n",
        "tests/telemetry/test_revocation.py::test_permissions_that_are_given_are_told_to_nobody",
    ),
)  # fmt: skip
