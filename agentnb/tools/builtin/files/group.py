"""The group ``files``."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.tools.builtin.files.reading import read_file
from agentnb.tools.builtin.group import BuiltinTool, ToolGroup


@dataclass(frozen=True)
class Files(ToolGroup):
    """The tools ``read_file``, ``write_file``, ``edit_file``, ``list_files`` and ``search_files``. They have no settings."""

    word = "files"

    def _make_tools(self) -> tuple[BuiltinTool, ...]:
        return (BuiltinTool(self, read_file, flag="file_read", effects=("read",), path="path"),)
