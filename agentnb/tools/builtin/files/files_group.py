"""The tool group ``files``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agentnb.tools.builtin.files.confined import check_descriptors
from agentnb.tools.builtin.files.edit_file import edit_file, text_after_edit
from agentnb.tools.builtin.files.nature import read_nature, write_nature
from agentnb.tools.builtin.files.read_file import list_files, read_file
from agentnb.tools.builtin.files.search_files import search_files
from agentnb.tools.builtin.files.write_file import text_after_write, write_file
from agentnb.tools.builtin.group import BuiltinTool, ToolGroup


@dataclass(frozen=True)
class Files(ToolGroup):
    """The tools ``read_file``, ``write_file``, ``edit_file``, ``list_files`` and ``search_files``. They have no settings."""

    word = "files"
    tool_names = ("read_file", "write_file", "edit_file", "list_files", "search_files")

    def _make_tools(self) -> tuple[BuiltinTool, ...]:
        reads = partial(BuiltinTool, self, flag="file_read", effects=("read",), path="path")
        writes = partial(BuiltinTool, self, flag="file_write", effects=("write",), path="path", nature=write_nature)
        return (
            reads(read_file, nature=read_nature),
            writes(write_file, content="content", new_text=text_after_write),
            writes(edit_file, new_text=text_after_edit),
            reads(list_files),
            reads(search_files, reads_tree=True),
        )

    def check_usable(self) -> None:
        """Raise `SettingsError` if the system cannot confine paths."""
        check_descriptors()
