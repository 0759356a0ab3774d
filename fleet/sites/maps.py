"""The picture of a site's map: looked at with suspicion, then drawn anew, so that nothing of the upload is kept."""

import hashlib
import io
import warnings
from typing import IO, NamedTuple

from PIL import Image, UnidentifiedImageError

from fleet.refusals import Refused

MAX_BYTES = 10 * 2**20  # of the upload
MAX_SIDE = 8000  # pixels
MAX_PIXELS = 25_000_000
MAX_KEPT = 20 * 2**20  # bytes of the PNG
FORMATS = ("PNG", "JPEG", "WEBP")


class Picture(NamedTuple):
    """A PNG of ours. Sides in pixels."""

    png: bytes
    sha256: str
    width: int
    height: int


def picture_of(upload: IO[bytes], size: int) -> Picture:
    """The uploaded picture as a PNG of ours. Raises `Refused` with what to do."""
    if size > MAX_BYTES:
        raise Refused(f"The file has {size / 2**20:.1f} MB; at most {MAX_BYTES // 2**20} MB. Save it smaller.")
    raw = upload.read(MAX_BYTES + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd about it is lost with the re-encoding
            drawn, width, height = _drawn(raw)
    except Refused:
        raise
    except Exception as error:  # whatever a decoder stumbles over
        raise Refused("This is no whole PNG, JPEG or WebP picture. Export it anew, e.g. as PNG.") from error
    if len(drawn) > MAX_KEPT:
        raise Refused(f"As PNG it has {len(drawn) / 2**20:.0f} MB, too much for a map. Make it smaller or plainer.")
    return Picture(drawn, hashlib.sha256(drawn).hexdigest(), width, height)


def _drawn(raw: bytes) -> tuple[bytes, int, int]:
    try:
        found = Image.open(io.BytesIO(raw), formats=FORMATS)
    except Image.DecompressionBombError:  # far beyond our own limit
        raise Refused(
            f"The picture has too many pixels; at most {MAX_PIXELS // 1_000_000} million. Scale it down."
        ) from None
    except UnidentifiedImageError:
        raise Refused("Not a PNG, JPEG or WebP picture (SVG and PDF cannot be used). Export it as PNG.") from None
    with found:
        width, height = found.size  # from the head of the file: nothing is unpacked yet
        if width > MAX_SIDE or height > MAX_SIDE or width * height > MAX_PIXELS:
            raise Refused(
                f"The picture has {width} by {height} pixels; at most {MAX_SIDE} a side and"
                f" {MAX_PIXELS // 1_000_000} million in all. Scale it down."
            )
        mode = (
            "L"
            if found.mode in ("1", "L", "I;16")
            else "RGBA"
            if "transparency" in found.info or found.mode in ("RGBA", "LA", "PA")
            else "RGB"
        )
        pixels = found.convert(mode)
    clean = Image.frombytes(mode, pixels.size, pixels.tobytes())  # pixels only: no comments, profiles or positions
    out = io.BytesIO()
    clean.save(out, "PNG", compress_level=6)
    return out.getvalue(), width, height
