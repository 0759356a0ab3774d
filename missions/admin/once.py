"""Five clicks, one mission: each page that makes missions carries a random key, and the same wish is carried out once.

A wish is the key together with all that was filled in. Whoever goes back, changes something and sends it again wishes
for something else, and gets it.
"""

import hashlib

from django.contrib import messages
from django.http import HttpRequest

NAME = "once"  # of the hidden input, templates/admin/drover/_once.html
_BUTTONS = {"csrfmiddlewaretoken", "_save", "_run"}  # which button it was makes no other wish
MAX_KEY = 64


def key_of(request: HttpRequest) -> str:
    """What names the wish; empty when the page carried no key."""
    key = request.POST.get(NAME, "")
    if not key or len(key) > MAX_KEY or not key.isalnum():
        return ""
    said = sorted((name, values) for name, values in request.POST.lists() if name not in _BUTTONS)
    return f"{key} {request.path} {hashlib.sha256(repr(said).encode()).hexdigest()}"


def say_again(request: HttpRequest) -> None:
    messages.info(request, "Your first click has drawn it up already: this is it.")
