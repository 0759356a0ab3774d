"""Dead letters: what could not be applied or delivered, to be looked at by a person."""

from django.contrib import admin
from django.utils.safestring import SafeString

from fleet.admin.pages import ReadOnlyAdmin
from fleet.admin.records import as_text
from fleet.admin.timeline import stamp
from missions.models import DeadLetter


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("since", "kind_or_message", "direction", "robot_id", "why", "tries")
    list_display_links = ("since", "kind_or_message")
    list_filter = ("direction",)
    search_fields = ("robot_id", "kind", "reason", "=msg_id")
    search_help_text = "Robot id, kind, reason, or a message id in full"
    fields = ("direction", "robot_id", "kind", "msg_id", "reason", "tries", "created_at", "message")
    readonly_fields = ("message",)

    @admin.display(description="since", ordering="created_at")
    def since(self, letter: DeadLetter) -> SafeString | str:
        return stamp(letter.created_at)

    @admin.display(description="kind", ordering="kind")
    def kind_or_message(self, letter: DeadLetter) -> str:
        return letter.kind or "message"

    @admin.display(description="why")
    def why(self, letter: DeadLetter) -> str:
        return letter.reason[:200]

    @admin.display(description="message")
    def message(self, letter: DeadLetter) -> SafeString:
        return as_text(letter.body)
