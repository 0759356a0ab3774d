"""How figures are shown: one row each, with baseline, ratio, target and whether it is met."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TIMES = ("ms", "µs", "s")


@dataclass(slots=True)
class Row:
    """One figure. `ratio` is how many times better than the baseline; `ok` is None where there is no target."""

    figure: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    target: str = ""
    ok: bool | None = None


def row(
    figure: str,
    value: float,
    unit: str,
    *,
    baseline: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    times: float | None = None,
) -> Row:
    """A row from its numbers. For times less is better, for rates more. `times`: so often the baseline at least."""
    ratio = None
    if baseline and value:
        ratio = baseline / value if unit in TIMES else value / baseline
    target, ok = "", None
    if at_least is not None:
        target, ok = f"≥ {at_least:g}", value >= at_least
    elif below is not None:
        target, ok = f"< {below:g}", value < below
    elif times is not None:
        target, ok = f"≥ {times:g} times", (ratio or 0) >= times
    return Row(figure, round(value, 3), unit, baseline and round(baseline, 3), ratio and round(ratio, 2), target, ok)


def machine(folder: Path, **more: Any) -> dict[str, Any]:
    """What the figures were taken on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "disk": _file_system(folder),
        **more,
    }


def _file_system(folder: Path) -> str:
    """Type of the file system that the stores write to: fsync on tmpfs proves nothing."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    best = ("", "unknown")
    for line in mounts.read_text().splitlines():
        _, point, kind, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def show(bench: str, about: dict[str, Any], rows: Sequence[Row], *, as_json: bool) -> str:
    """The whole report as text."""
    if as_json:
        return json.dumps({"bench": bench, "machine": about, "rows": [asdict(r) for r in rows]}, ensure_ascii=False)
    cells = [("figure", "value", "unit", "baseline", "ratio", "target", "ok")]
    for r in rows:
        ok = "" if r.ok is None else "yes" if r.ok else "MISSED"
        cells.append(
            (r.figure, *(_number(v) for v in (r.value,)), r.unit, _number(r.baseline), _number(r.ratio), r.target, ok)
        )
    widths = [max(len(line[n]) for line in cells) for n in range(7)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([", ".join(f"{name} {value}" for name, value in about.items()), "", *lines])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
