"""Texts of others and times, as the live page writes them."""

from datetime import UTC, datetime


def short(text: str, most: int = 160) -> str:
    """Text of others, cut for a card."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def moment(at: datetime | None) -> dict[str, str] | None:
    """A time for `<time>`: machine-readable, and in UTC for who has no script."""
    if at is None:
        return None
    return {"iso": at.isoformat(timespec="milliseconds"), "utc": f"{at.astimezone(UTC):%H:%M} UTC"}
