"""Buttons: a POST to an address of its own that checks the permission again, calls one action and reports in one sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect

from fleet.admin import once
from fleet.commit import Conflict
from fleet.refusals import Refused, in_words


@dataclass(frozen=True, slots=True)
class Button:
    """One thing a person may do to a row.

    `run(request, row)` calls an action and returns the sentence to report, or a response of its own. `confirm` says what
    it touches (asked once, before), `yes` is the word on the button that does it, `asks` names the one text that goes
    with it. `versioned` sends what the user saw, `once` carries a key so that five clicks make one thing.
    """

    verb: str
    label: str
    permission: str
    run: Callable[[HttpRequest, Any], str | HttpResponse]
    shown: Callable[[Any], bool] = lambda row: True
    confirm: str = ""
    yes: str = ""
    asks: str = ""
    versioned: bool = False
    look: str = ""  # primary, danger
    once: bool = False
    per_item: bool = False  # belongs to a hold or a credential, not to the page's head


def view_of(page: Any, button: Button) -> Callable[..., HttpResponse]:
    """What answers the address of this button; `page` is the `PageAdmin` of its row."""

    def view(request: HttpRequest, object_id: str) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        row = page.found(request, object_id)
        if not request.user.has_perm(button.permission):
            raise PermissionDenied
        try:
            if button.once and not page.knows_wishes:
                answer, before = once.carry_out(request, lambda: button.run(request, row))
                if before is not None:
                    once.say_again(request, "done it already")
                    return redirect(page.url("change", row))
            else:
                answer = button.run(request, row)
        except (Refused, Conflict) as error:
            messages.error(request, in_words(error))
        else:
            if isinstance(answer, HttpResponse):
                return answer
            messages.success(request, answer)
        return redirect(page.url("change", row))

    return view
