"""The tool ``write_file``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agentnb.tools.builtin.files import refusals
from agentnb.tools.builtin.files.confined import confine
from agentnb.tools.builtin.files.replacing import check_mark, replace_file
from agentnb.tools.tool import ToolContext


async def write_file(context: ToolContext, path: str, content: str) -> str:
    """Write text to a file in the working directory, replacing it if it exists. Creates missing parent directories.

    :param path: Path relative to the working directory
    :param content: The full text
    """
    return await asyncio.to_thread(_write, context, path, content)


def text_after_write(arguments: Mapping[str, Any], before: str | None) -> str | None:
    """Return the text of a file after a call to ``write_file``."""
    content = arguments.get("content")
    return content if isinstance(content, str) else None


def _write(context: ToolContext, path: str, content: str) -> str:
    data = encode_text(content, "content")
    target = confine(path, context.work_dir)

    def new_bytes(old: bytes | None) -> bytes:
        check_mark(content, old, target)
        return data

    replace_file(context, target, new_bytes)
    return f"Successfully wrote {len(data)} bytes to {path}"


def encode_text(text: str, argument: str) -> bytes:
    """Encode the text. Raises `ToolRefused` if UTF-8 cannot encode it. ``argument``: its name in the call."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise refusals.not_unicode(argument) from error
