"""Searches for tools with the tools that they should find: those of real servers, and generated ones that are much alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mcp import types as t

from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_tool import MCPTool
from agentnb.tools.mcp.wire_names import wire_name

REAL: Mapping[str, str] = {
    # as the tools say it themselves
    "convert time between timezones": "clock/convert_time",
    "current time": "clock/get_current_time",
    "git status": "git/git_status",
    "unstaged changes": "git/git_diff_unstaged",
    "list git branches": "git/git_branch",
    "create a new branch": "git/git_create_branch",
    "sum of two numbers": "everything/get-sum",
    "environment variables": "everything/get-env",
    "echo the input": "everything/echo",
    "read a text file": "filesystem/read_text_file",
    "read several files at once": "filesystem/read_multiple_files",
    "directory tree": "filesystem/directory_tree",
    "search files by pattern": "filesystem/search_files",
    "metadata of a file": "filesystem/get_file_info",
    "allowed directories": "filesystem/list_allowed_directories",
    "compress a file with gzip": "everything/gzip-file-as-resource",
    # in words of a model that does not know them
    "what time is it in Tokyo": "clock/get_current_time",
    "switch to another branch": "git/git_checkout",
    "history of commits": "git/git_log",
    "stage files before committing": "git/git_add",
    "unstage everything": "git/git_reset",
    "compare two branches": "git/git_diff",
    "what did this commit change": "git/git_show",
    "save changes to the repository with a message": "git/git_commit",
    "add two numbers": "everything/get-sum",
    "show a picture": "everything/get-tiny-image",
    "zip a file": "everything/gzip-file-as-resource",
    "list the contents of a folder": "filesystem/list_directory",
    "make a new folder": "filesystem/create_directory",
    "rename a file": "filesystem/move_file",
    "write text into a file": "filesystem/write_file",
    "replace a line in a file": "filesystem/edit_file",
    "how large are the files of a directory": "filesystem/list_directory_with_sizes",
    "find a file by name": "filesystem/search_files",
    "size and last modified time of a file": "filesystem/get_file_info",
    "open an image file": "filesystem/read_media_file",
    "deep research about a topic": "everything/simulate-research-query",
    "ask the user a question": "everything/trigger-elicitation-request",
    "run a long operation": "everything/trigger-long-running-operation",
    # misspelt, other forms of words, camel case
    "comit the chagnes": "git/git_commit",
    "directories listing": "filesystem/list_directory",
    "timezone conversion": "clock/convert_time",
    "getFileInfo": "filesystem/get_file_info",
    "git_log max_count": "git/git_log",
    "moving files": "filesystem/move_file",
}
GENERATED: Mapping[str, str] = {
    "delete a vessel": "delete_vessel",
    "remove vessels": "delete_vessel",
    "how many customers are there": "count_customer",
    "export all invoices": "export_invoice",
    "merge two tide tables": "merge_tide_table",
    "combine tide tables into one": "merge_tide_table",
    "change the name of a harbour": "rename_harbour",
    "check that a permit is valid": "validate_permit",
    "new shipment": "create_shipment",
    "add a crew": "create_crew",
    "compare cargos": "compare_cargo",
    "which berths are there": "list_berth",
    "put an invoice into the archive": "archive_invoice",
    "archive_permit": "archive_permit",
    "validate berht": "validate_berth",
}
"""The first version of each tool; the second one is as good."""


def tool_of(server: str, tool: t.Tool) -> MCPTool:
    """Return a tool that a server lists."""
    live: Any = SimpleNamespace(server=MCPServer(server, "program"))
    return MCPTool(live, tool, wire_name(server, tool.name))


def real_tools() -> list[MCPTool]:
    """Return the tools of four servers that people run, as they listed them in November 2026."""
    listed = json.loads(Path(__file__).with_name("real_tools.json").read_text(encoding="utf-8"))
    return [tool_of(server, t.Tool(**tool)) for server, tools in listed.items() for tool in tools]
