"""A process that dies with its parent, however the parent dies.

Linux tells a process when the thread that started it ends (prctl PR_SET_PDEATHSIG). Elsewhere this does nothing
and a killed parent may leave children behind.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None  # loaded before any fork


def tie(parent: int) -> None:
    """From now on this process gets SIGKILL when its parent ends. `parent` is the pid that it should still have."""
    if _libc is None:
        return
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def tied() -> Callable[[], None]:
    """For `preexec_fn`: ties the new process to this one.

    It runs after a change of user, which would have cleared the setting.
    """
    parent = os.getpid()
    return lambda: tie(parent)
