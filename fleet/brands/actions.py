"""What people and programs can do with brands. Each verb is one transaction."""

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.brands import rules
from fleet.columns import checked_name, whole
from fleet.commit import commit, new, next_pk
from fleet.history import AGGREGATES, KINDS, Change, Origin
from fleet.locked import one
from fleet.models import Brand, OfflinePolicy, Robot
from fleet.ports import drivers
from fleet.refusals import Refused
from fleet.robots import addresses

DAY_S = 86_400
TIMINGS = ("suspect_after_s", "offline_after_s", "abandon_after_s")
FROM_1 = ("accept_s", "undelivered_s", "finish_s", "answer_s", "stop_s", "paused_long_s", "mission_timeout_s")
MAX_TRIES = 100
YES_NO = ("strict_sequence", "idle_cancel")


def create_brand(name: str, *, by: Origin, **columns: Any) -> Brand:
    """A new brand; columns that are not given are as usual for its driver."""
    fields = {f.name: f for f in Brand._meta.concrete_fields}
    told = {c: fields[c].get_default() for c in sorted(KINDS["brand.created"].sets)} | columns | {"name": name}
    usual = drivers.named(told["driver"])
    told |= {c: v for c, v in usual.timing.items() if c not in columns}
    told["strict_sequence"] = columns.get("strict_sequence", usual.strict_sequence)
    change = new(AGGREGATES["brand"], next_pk(Brand))
    with transaction.atomic():
        _tell(change, told, by)
    return change.row  # type: ignore[no-any-return]


def edit_brand(brand_id: int, *, by: Origin, **columns: Any) -> None:
    """Change the columns that are given."""
    with transaction.atomic():
        change = one("brand", brand_id)
        if columns.get("driver", change.row.driver) != change.row.driver:
            _check_unused(brand_id)
        _tell(change, columns, by)


def _check_unused(brand_id: int) -> None:
    """Addresses and settings of robots mean something in their own driver's words only."""
    addresses.alone()
    if used := Robot.objects.filter(brand=brand_id, retired_at=None).count():
        raise Refused(
            f"driver: {used} robot{'' if used == 1 else 's'} of this brand are in service, and speak as they do. Make another brand."
        )


def _tell(change: Change, columns: dict[str, Any], by: Origin) -> None:
    now = timezone.now()
    change.origin = by
    rules.decide(change, rules.SetBrand(_checked(change.row, columns)), now)
    try:
        with transaction.atomic():
            commit([change], now=now)
    except IntegrityError as error:
        if "unique" in str(error).lower():
            raise Refused(f"name: There is a brand {change.row.name} already. Choose another name.") from error
        raise


def _checked(row: Brand, columns: dict[str, Any]) -> dict[str, Any]:
    known = dict(columns)
    for column in {"name", "driver"} & known.keys():
        known[column] = checked_name(column, known[column])
    if len(known.get("driver", "")) > 40:
        raise Refused("driver: At most 40 characters.")
    driver = known.get("driver", row.driver)
    installed = drivers.known()
    if installed and driver not in installed and (not row.version or driver != row.driver):
        raise Refused(f"driver: There is none of that name. Choose one of {', '.join(installed)}.")
    if "profile" in known:
        known["profile"] = addresses.checked_profile(known["profile"])
    if "profile" in known or driver != row.driver:
        addresses.check_settings(drivers.named(driver), known.get("profile", row.profile))
    if "capabilities" in known:
        known["capabilities"] = [checked_name("capabilities", c) for c in known["capabilities"]]
    for column in set(TIMINGS) & known.keys():
        known[column] = whole(column, known[column], 0 if column == "abandon_after_s" else 1, 7 * DAY_S, "seconds")
    suspect, offline = (known.get(c, getattr(row, c)) for c in TIMINGS[:2])
    if offline < suspect:
        raise Refused("offline_after_s: A robot is suspect before it counts as offline: not less than suspect after.")
    for column, lowest in (("charge_below_pct", 1), ("charge_until_pct", 2)):
        if known.get(column) is not None or (column == "charge_until_pct" and column in known):
            known[column] = whole(column, known[column], lowest, 100, "per cent")
    _check_missions(known)
    below, until = (known.get(c, getattr(row, c)) for c in ("charge_below_pct", "charge_until_pct"))
    if below is not None and below >= until:
        raise Refused("charge_until_pct: It charges to more than the level at which it is sent: above charge below.")
    return known


def _check_missions(known: dict[str, Any]) -> None:
    """What a brand says about missions of its robots; stored as it will be read."""
    for column in set(FROM_1) & known.keys():
        known[column] = whole(column, known[column], 1, DAY_S, "seconds")
    if "accept_tries" in known:
        known["accept_tries"] = whole("accept_tries", known["accept_tries"], 1, MAX_TRIES, "tries")
    if known.get("stops_after_silence_s") is not None:
        silence = known["stops_after_silence_s"]
        known["stops_after_silence_s"] = whole("stops_after_silence_s", silence, 1, DAY_S, "seconds")
    if "offline_policy" in known and known["offline_policy"] not in OfflinePolicy.values:
        raise Refused(f"offline_policy: Choose one of {', '.join(OfflinePolicy.values)}.")
    for column in set(YES_NO) & known.keys():
        if not isinstance(known[column], bool):
            raise Refused(f"{column}: Yes or no.")
    if "step_timeouts" in known:
        if not isinstance(known["step_timeouts"], dict):
            raise Refused("step_timeouts: Command types with their seconds.")
        known["step_timeouts"] = {
            checked_name("step_timeouts", command): whole("step_timeouts", seconds, 1, DAY_S, "seconds")
            for command, seconds in known["step_timeouts"].items()
        }
