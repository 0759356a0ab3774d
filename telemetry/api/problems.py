"""Errors of the API as `application/problem+json` (RFC 9457): what happened, where, and what to do next."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DataError
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from fleet.commit import Conflict
from fleet.refusals import Refused, in_words
from telemetry import problem_json

log = logging.getLogger(__name__)

TITLES = {
    400: "The request is not understood",
    401: "No valid token",
    403: "Not allowed",
    404: "Not found",
    405: "Not with this method",
    409: "Not possible as things are",
    413: "Too large",
    422: "Something in it is wrong",
    429: "Too many requests",
    500: "A fault of the site",
    503: "Not available at the moment",
}
A_NUMBER = "A whole number."
A_TIME = "A time with its zone, such as 2026-12-01T10:00:00Z."
REASONS = {  # what the schema finds wrong → in words that say what to do; else its own
    "extra_forbidden": "There is no such field. /api/v1/openapi.json describes all that there are.",
    "missing": "This is needed.",
    "model_attributes_type": "One JSON object, as docs/api.md shows.",
    "int_parsing": A_NUMBER,
    "int_from_float": A_NUMBER,
    "int_type": A_NUMBER,
    "timezone_aware": A_TIME,
    "datetime_parsing": A_TIME,
    "datetime_from_date_parsing": A_TIME,
    "datetime_type": A_TIME,
}


class Wrong(ValueError):
    """One field of the request is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


def problem(status: int, detail: str, **more: Any) -> HttpResponse:
    """A response. `more`: further members, e.g. `errors`, a list of `{"field", "reason"}`."""
    body = problem_json.body(status, TITLES.get(status, "Error"), detail, **more)
    response = HttpResponse(body, status=status, content_type=problem_json.CONTENT_TYPE)
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="drover"'
    if status == 503:
        response["Retry-After"] = "2"
    return response


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 401:
        detail = "Send `Authorization: Bearer <token>` with a token that is not revoked or expired."
        return problem(401, detail)
    if error.status_code == 400:
        return problem(400, "The body is no JSON. Send one JSON object, as docs/api.md shows.")
    return problem(error.status_code, str(error))


def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [{"field": _field(e["loc"]), "reason": REASONS.get(e["type"], e["msg"])} for e in error.errors]
    return problem(422, "; ".join(f"{e['field']}: {e['reason']}" for e in errors), errors=errors)


def _field(loc: Iterable[Any]) -> str:
    """The way to it in the body (`steps.0.timeout_s`), or the name of the parameter."""
    source, *path = loc
    if source == "body":
        path = path[1:]  # the body as a whole has a name among our arguments
    return ".".join(map(str, path)) or "body"


def _wrong(request: HttpRequest, error: Wrong) -> HttpResponse:
    return problem(422, str(error), errors=[{"field": error.field, "reason": error.reason}])


def _database(request: HttpRequest, error: DatabaseError) -> HttpResponse:
    log.warning("%s could not be done, the database does not answer, or takes no writes: %s", request.path, error)
    return problem(503, "The database does not answer, or takes no writes. Nothing was done; send it again.")


def _data(request: HttpRequest, error: DataError | UnicodeEncodeError) -> HttpResponse:
    return problem(422, "It holds text or a number that cannot be stored or compared, such as the NUL character.")


def nowhere(request: HttpRequest, path: str) -> HttpResponse:
    """View of every path that the API does not have."""
    return problem(404, "There is no such address. /api/v1/openapi.json lists them all.")


def _too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return problem(413, f"The body has more than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,} bytes. Nothing was done.")


def _unexpected(request: HttpRequest, error: Exception) -> HttpResponse:
    log.error("%s failed", request.path, exc_info=error)
    return problem(500, "This is a fault of the site; its log has the details.")


@contextmanager
def _head_as_get(request: HttpRequest) -> Iterator[None]:
    """The server leaves the body out."""
    method = request.method
    request.method = "GET" if method == "HEAD" else method
    try:
        yield
    finally:
        request.method = method


def told(pattern: Any) -> Any:
    """This address, where a method that it does not take is answered with a problem, and HEAD as GET without its body."""
    view = pattern.callback

    def looked_at(response: HttpResponse) -> HttpResponse:
        if response.status_code != 405:
            return response
        refused = problem(405, f"This address takes {response['Allow']}.")
        refused["Allow"] = response["Allow"]
        return refused

    async def waiting(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        with _head_as_get(request):
            return looked_at(await view(request, **kwargs))

    def direct(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        with _head_as_get(request):
            return looked_at(view(request, **kwargs))

    pattern.callback = waiting if iscoroutinefunction(view) else direct
    pattern.callback.csrf_exempt = True  # as ninja has it: no cookie counts here
    return pattern


def handle(api: NinjaAPI) -> None:
    """Have the API answer with problems."""
    api.add_exception_handler(Exception, _unexpected)
    api.add_exception_handler(HttpError, _http)
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(RequestDataTooBig, _too_large)
    api.add_exception_handler(Wrong, _wrong)
    api.add_exception_handler(Http404, lambda request, error: problem(404, str(error)))
    api.add_exception_handler(Refused, lambda request, error: problem(409, str(error)))
    api.add_exception_handler(Conflict, lambda request, error: problem(409, in_words(error)))
    api.add_exception_handler(DatabaseError, _database)
    api.add_exception_handler(DataError, _data)
    api.add_exception_handler(UnicodeEncodeError, _data)  # half a surrogate pair, which JSON can spell
