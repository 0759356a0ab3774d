"""Is this machine busy with something else? Then wall times measure that, and are printed but not judged."""

import os


def is_busy() -> bool:
    """Ask before the measured work begins."""
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
