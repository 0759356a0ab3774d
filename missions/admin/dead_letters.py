"""Dead letters: what could not be applied or delivered, to be looked at by a person."""

from django.contrib import admin
from django.utils.safestring import SafeString

from fleet.admin.pages import ReadOnlyAdmin
from fleet.admin.records import as_text
from fleet.admin.timeline import stamp
from missions.models import DeadLetter, Direction

NEXT = {  # direction → what a person does now
    Direction.IN: "Nothing of it was applied. Look at the robot's page and at its mission, and put right by hand what "
    "the message would have changed. Quote the message id when you report it.",
    Direction.OUT: "The robot never took it, so its mission was stopped and aborted. See that the robot is online, then "
    "rerun the mission from its page.",
}


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    change_list_template = "admin/drover/dead_letter_list.html"
    list_display = ("since", "kind_or_message", "direction", "robot_id", "why", "tries")
    list_display_links = ("since", "kind_or_message")
    list_filter = ("direction",)
    search_fields = ("robot_id", "kind", "reason", "=msg_id")
    search_help_text = "Robot id, kind, reason, or a message id in full"
    fields = ("direction", "robot_id", "kind", "msg_id", "reason", "tries", "since", "next_step", "message")
    readonly_fields = ("since", "next_step", "message")

    @admin.display(description="since", ordering="created_at")
    def since(self, letter: DeadLetter) -> SafeString | str:
        return stamp(letter.created_at)

    @admin.display(description="kind", ordering="kind")
    def kind_or_message(self, letter: DeadLetter) -> str:
        return letter.kind or "message"

    @admin.display(description="why")
    def why(self, letter: DeadLetter) -> str:
        return letter.reason[:200]

    @admin.display(description="what to do now")
    def next_step(self, letter: DeadLetter) -> str:
        return NEXT[Direction(letter.direction)]

    @admin.display(description="message")
    def message(self, letter: DeadLetter) -> SafeString:
        return as_text(letter.body)
