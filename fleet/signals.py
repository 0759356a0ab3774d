"""Drover's own signals: sent after commit, once per commit, with `changes: list[fleet.history.Change]`.

A receiver reads ids, versions (`before`, `row.version`), `state`, `events` (with the state before and after each) and
`commands`; it applies no business rule.
"""

from django.dispatch import Signal

robot_changed = Signal()
site_changed = Signal()
brand_changed = Signal()
mission_transitioned = Signal()
template_changed = Signal()
letter_changed = Signal()
person_changed = Signal()
alert_changed = Signal()  # of alerts that were only raised again there are no changes, but `counted`: their ids
silence_changed = Signal()
