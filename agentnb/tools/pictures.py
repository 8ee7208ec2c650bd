"""Pictures, and values that can render themselves, as file bytes with a description.

The person's figures are unaffected: rendering one changes neither its canvas nor pyplot's current figure.
"""

from __future__ import annotations

import binascii
import sys
from io import BytesIO
from threading import Lock
from typing import Any, NamedTuple

from agentnb.core.messages import Image, ResultParts, Text
from agentnb.tools.defaults import MAX_PIXELS
from agentnb.tools.library_classes import is_of

LONGEST_TAKEN = 8_000
"""Maximum number of pixels on the longer side of a finished file; providers refuse larger ones."""
MAX_BYTES = 3_750_000
"""Maximum number of bytes in a picture: 5 MB as base64, close to the limit of providers."""
MAX_AS_PNG = 3_000_000
"""Maximum number of bytes in a lossless picture; a larger one without transparency becomes a JPEG."""
PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})

_drawing = Lock()
"""Lock held while rendering, which temporarily changes a figure."""


class Picture(NamedTuple):
    """Picture of a value, and its description."""

    source: object
    """Rendered object: the complete figure, even if the value is a part of it."""
    words: str | None
    """Description, or None if the value has its own text."""
    data: bytes = b""
    kind: str = ""
    """Media type."""
    problem: str = ""
    """Reason for a missing picture."""

    def parts(self, own_words: str) -> ResultParts:
        """Return the description, followed by the picture if there is one."""
        words = own_words if self.words is None else self.words
        problem = self.problem or _too_large(self.data)
        if problem:
            return (Text(f"{words} ({problem})"),)
        return (Text(words), Image(self.kind, self.data)) if self.data else (Text(words),)


def picture_of(value: Any) -> Picture | None:
    """Return the picture that a value is or renders as, or None for any other value."""
    if isinstance(value, Image):
        return Picture(value, _describe(value.data, value.media_type), value.data, value.media_type)
    if isinstance(value, bytes | bytearray | memoryview):
        return _of_file(value, bytes(value))
    if type(value).__module__ == "builtins":
        return None
    figure = figure_of(value)
    if figure is not None:
        return _of_figure(figure)
    if is_of(value, "PIL", "Image"):
        return _of_pil(value)
    return _of_ipython(value) if is_of(value, "IPython", "Image") else _own_display(value)


def figure_of(value: Any) -> Any:
    """Return the matplotlib figure that a value is or belongs to, or None."""
    if "matplotlib" not in sys.modules or type(value).__module__ == "builtins":
        return None
    if is_of(value, "numpy", "ndarray"):
        value = value.flat[0] if value.dtype == object and value.size else None
    for _ in range(3):  # from a line to its subfigure, then to the figure
        if value is None or is_of(value, "matplotlib", "Figure"):
            return value
        try:
            value = value.figure
        except Exception:  # without a figure, or with a property that raises
            return None
    return None


def figure_words(figure: Any) -> str:
    """Describe the size of a figure."""
    width, height = figure.get_size_inches() * figure.dpi
    return f"a figure of {width:.0f} x {height:.0f} pixels"


def _of_figure(figure: Any) -> Picture:
    words = figure_words(figure)
    try:
        with _drawing:
            data = _render(figure)
    except Exception as error:
        return Picture(figure, words, problem=_why(error))
    return Picture(figure, words + _shown_as(data, longest=max(figure.get_size_inches()) * figure.dpi), data, "image/png")


def _render(figure: Any) -> bytes:
    """Render a figure as PNG. If content beyond its edge makes it too large, render it again at a smaller size."""
    # The patch keeps the figure's own edge: it grows for content beyond it, and never shrinks.
    artists = [*figure.get_default_bbox_extra_artists(), figure.patch]
    whole = {"bbox_inches": "tight", "pad_inches": 0, "bbox_extra_artists": artists}
    share = min(1.0, MAX_PIXELS / (max(figure.get_size_inches()) * figure.dpi))
    for _ in range(2):
        file = BytesIO()
        figure.savefig(file, format="png", dpi=figure.dpi * share, backend="agg", **whole)
        width, height = size_of(file.getvalue()) or (0, 0)
        if max(width, height) <= MAX_PIXELS:
            break
        share *= MAX_PIXELS / max(width, height)
    return file.getvalue()


def _of_pil(image: Any) -> Picture:
    words = f"a picture of {image.width} x {image.height} pixels"
    try:
        kind, data = _encode(image)
    except Exception as error:
        return Picture(image, words, problem=_why(error))
    return Picture(image, words + _shown_as(data, longest=max(image.size)), data, kind)


def _encode(image: Any) -> tuple[str, bytes]:
    """Encode a picture within the limits, as PNG, or as JPEG if the PNG would be large and has no transparency."""
    if image.mode not in PNG_MODES:
        image = image.convert("RGBA" if image.mode in ("PA", "La", "RGBa") else "RGB")
    if max(image.size) > MAX_PIXELS:
        image = image.convert("RGBA") if image.mode == "P" else image.copy()
        image.thumbnail((MAX_PIXELS, MAX_PIXELS))
    file = BytesIO()
    image.save(file, "PNG")
    if file.tell() <= MAX_AS_PNG or (image.has_transparency_data and image.getextrema()[-1] != (255, 255)):
        return "image/png", file.getvalue()
    file = BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=90)
    return "image/jpeg", file.getvalue()


def _of_ipython(image: Any) -> Picture | None:
    if isinstance(image.data, bytes):
        return _of_file(image, image.data)
    if isinstance(image.url, str):
        return Picture(image, f"a picture at {image.url[:300]}")
    return None


def _own_display(value: Any) -> Picture | None:
    """Return the notebook display of a value, if that is a picture."""
    try:
        # Looked up on the class, like special methods: some objects have every attribute.
        # No _repr_mimebundle_: it may take seconds, or start a browser.
        methods = (getattr(type(value), name, None) for name in ("_repr_png_", "_repr_jpeg_"))
        for shown in (method(value) for method in methods if callable(method)):
            data = shown[0] if isinstance(shown, tuple) and shown else shown
            data = binascii.a2b_base64(data) if isinstance(data, str) else data
            kind = media_type(data) if isinstance(data, bytes) else None
            if kind:
                return Picture(value, None, data, kind)
    except Exception as error:
        return Picture(value, None, problem=_why(error))
    return None


def _of_file(source: object, data: bytes) -> Picture | None:
    kind = media_type(data)
    return Picture(source, _describe(data, kind), data, kind) if kind else None


def _describe(data: bytes, kind: str) -> str:
    size = size_of(data)
    return f"a picture of {size[0]} x {size[1]} pixels" if size else f"a picture ({kind}, {len(data):,} bytes)"


def _shown_as(data: bytes, longest: float) -> str:
    """Return the displayed size if it is smaller than the original."""
    size = size_of(data)
    return f", shown as {size[0]} x {size[1]}" if size and longest > MAX_PIXELS else ""


def _too_large(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        return f"left out: {len(data) / 1_000_000:.1f} MB"
    return "left out: too many pixels" if max(size_of(data) or (0,)) > LONGEST_TAKEN else ""


def _why(error: Exception) -> str:
    return f"it could not be rendered: {type(error).__name__}: {error}"


def media_type(data: bytes) -> str | None:
    """Return the media type of a complete PNG, JPEG, GIF or WebP file, or None for other data.

    Truncated files are rejected: providers would refuse the entire request because of them.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and b"IEND" in data[-64:]:
        return "image/png"
    if data.startswith(b"\xff\xd8\xff") and data.rfind(b"\xff\xd9") > 0:
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) > 13 and data.endswith(b";"):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and int.from_bytes(data[4:8], "little") <= len(data) - 8:
        return "image/webp"
    return None


def size_of(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels from the header of a PNG, GIF or JPEG, or None."""
    kind = media_type(data)
    if kind == "image/png":
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if kind == "image/gif":
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return _jpeg_size(data) if kind == "image/jpeg" else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker, length = data[position + 1], int.from_bytes(data[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header; the three excluded markers are tables
            return int.from_bytes(data[position + 7 : position + 9], "big"), int.from_bytes(
                data[position + 5 : position + 7], "big"
            )
        position += 2 + length
    return None
