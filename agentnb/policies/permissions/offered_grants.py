"""Grants offered with a question about a call: scope and reach of the answer "always"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentnb.commands.command_patterns import offer_pattern
from agentnb.commands.shell_command import shell_command
from agentnb.core.messages import ToolCall
from agentnb.core.questions import GrantOffer, GrantReach
from agentnb.core.run.approvals import allows_all, may_be_saved
from agentnb.policies.permissions.approval_mode import declared_effects
from agentnb.policies.permissions.path_rules import (
    canonical_address,
    offered_address,
    offered_file,
    offered_folder,
    parts_to_allow,
    resolved_path,
    unknown_parts,
)
from agentnb.tools.mcp.mcp_server import PREFIX
from agentnb.tools.subject import kind_of_subject, nature_of, origin_of, subject_of, value_of_subject
from agentnb.tools.tool import Tool


def grants_about(
    call: ToolCall, tool: Tool, work_dir: Path, *, reaches: Sequence[GrantReach], settles: bool = False
) -> tuple[GrantOffer, ...]:
    """Return the grants offered with a question about this call, the narrowest first. ``reaches``: the reaches that can be
    remembered.

    A tool without a subject is offered as a whole; a tool of an MCP server is offered only for the run, and for longer reaches
    only all tools of the server. For commands and locations without a narrow pattern, the session is not offered: it would
    allow too much for too long. For files that may hold keys, and for files that are only read, only the file itself is
    offered, since ordinary reads need no question; for a command that names a key file, only that command is. Rules that name
    an entire tool or such files are not saved: another tool may have the same name later. ``settles``: True if the question is
    about parts of a command not known to be harmless.
    """
    command = value_of_subject(tool, call.arguments) if kind_of_subject(tool) == "command" else None
    names_keys = command is not None and bool(shell_command(command).key_files)
    is_sensitive = names_keys or nature_of(tool, call.arguments, work_dir) == "sensitive"
    is_one_file = is_sensitive or (kind_of_subject(tool) == "path" and set(declared_effects(tool) or ()) == {"read"})
    rule = _rule(call, tool, work_dir, is_one_file=is_one_file, settles=settles)
    is_lasting = may_be_saved(rule) and not is_sensitive and (rule.startswith(PREFIX) or not allows_all(rule))
    grants = [GrantOffer(rule, reach) for reach in reaches if rule and (is_lasting or reach != "project")]
    if rule == call.name:
        return () if is_sensitive else tuple(grants)
    if is_one_file or settles:
        return tuple(grants)
    in_run = GrantOffer(call.name)
    return (in_run, *grants) if rule.startswith(PREFIX) else (*grants, in_run)


def _rule(call: ToolCall, tool: Tool, work_dir: Path, *, is_one_file: bool, settles: bool) -> str:
    """Return the rule offered in addition to the tool: the tool itself if it has no subject, or "" if nothing is offered."""
    origin = origin_of(tool)
    if origin is not None:
        return f"{PREFIX}{origin.server}"
    subject, value = subject_of(tool), value_of_subject(tool, call.arguments)
    if subject is None:
        return call.name
    if value is None:
        return ""
    if subject.kind == "command":
        pattern = _command_pattern(value, work_dir, settles=settles)
    elif subject.kind == "url":
        address = canonical_address(value)
        pattern = "" if address is None else offered_address(address)
    else:
        path = resolved_path(value, work_dir)
        pattern = "" if path is None else offered_file(path) if is_one_file else offered_folder(path, work_dir)
    return f"{call.name}({pattern})" if pattern else ""


def _command_pattern(text: str, work_dir: Path, *, settles: bool) -> str:
    """Return the pattern that allows all parts of a command except ``cd``, or settles all parts not known to be harmless."""
    command = shell_command(text)
    if settles:
        return offer_pattern(command, unknown_parts(command, work_dir))
    return offer_pattern(command, parts_to_allow(command, work_dir)) if command.is_list else ""
