"""Reading files."""

from __future__ import annotations

from agentnb.tools.tool import ToolContext


def read_file(context: ToolContext, path: str) -> str:
    """Return the text of a file in the working directory.

    :param path: Path relative to the working directory
    """
    return (context.work_dir / path).read_text()
