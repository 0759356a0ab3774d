"""What a dispatched mission keeps of its robot's brand: times and rules, as they were when it was dispatched.

So a change of the brand never changes what is under way, and `decide` needs no look at other rows.
"""

from typing import Any

from fleet.models import Brand, OfflinePolicy

COLUMNS = (
    "accept_s", "accept_tries", "undelivered_s", "finish_s", "answer_s", "stop_s", "paused_long_s", "offline_policy",
    "strict_sequence", "stops_after_silence_s", "idle_cancel",
)  # fmt: skip
DEFAULTS: dict[str, Any] = {
    column: default.value
    if isinstance(default := Brand._meta.get_field(column).get_default(), OfflinePolicy)
    else default
    for column in COLUMNS
}

# the same for every brand
ACCEPT_WAITS_S = 30  # until a robot that is not online, or stopped, is looked at again
UNTAKEN_LOOKS = 3  # a robot that is online and takes nothing at so many looks gets nothing
GAP_S = 2  # resend window: until a receipt that is missing while a later one is there counts as missing
STOP_RESEND_S = 2  # a stop is sent again after this long, then after as long again, and so on
WAITS_LONG_S, WAITS_MOST_S = 600, 3600  # until it is said that it still waits: after as long again, at most
BACKOFF_S = (1, 2, 4, 8, 16)  # before the second, third … attempt of a step


def of_brand(brand: Any) -> dict[str, Any]:
    """The part of a brand that its robots' missions go by. `brand`: a row of Brand."""
    return {column: getattr(brand, column) for column in COLUMNS}


def get(mission: Any, column: str) -> Any:
    """Missions that were dispatched before brands had a say go by the defaults."""
    return mission.timings.get(column, DEFAULTS[column])


def offline_policy(mission: Any) -> str:
    """What becomes of it when its robot stays offline: its own word, else its brand's."""
    return str(mission.offline_policy or get(mission, "offline_policy"))


def backoff_s(attempt: int) -> int:
    """How long to wait after this attempt (from 1) before the next."""
    return BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1]
