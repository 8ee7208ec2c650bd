"""Media type and size of a picture, read from its bytes."""

from __future__ import annotations


def media_type(data: bytes) -> str | None:
    """Return the media type of a complete PNG, JPEG, GIF or WebP file; None for anything else.

    A file that was cut off counts as none: providers refuse the whole request for it.
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
    """Return width and height in pixels where the file states them at its beginning, as PNG, GIF and JPEG do."""
    kind = media_type(data)
    if kind == "image/png":
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if kind == "image/gif":
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return _jpeg_size(data) if kind == "image/jpeg" else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header; the three excluded markers are tables
            return int.from_bytes(data[place + 7 : place + 9], "big"), int.from_bytes(data[place + 5 : place + 7], "big")
        place += 2 + length
    return None
