"""Pictures for tests of the map."""

import io
from typing import Any

from PIL import Image


def png(width: int = 40, height: int = 20, kind: str = "PNG", mode: str = "RGB", **extra: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, (width, height)).save(out, kind, **extra)
    return out.getvalue()
