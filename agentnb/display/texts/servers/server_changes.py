"""Changes to an MCP server and its tools since they were first seen, for the person who may accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentnb.core.questions import ToolOrigin
from agentnb.display.texts.judged_call import diff_line
from agentnb.display.texts.labels import cut, pluralize
from agentnb.display.texts.visible_text import visible, visible_name

MAX_SHOWN = 2_000
"""Maximum characters of a command or address, and of a tool's change; the rest are counted."""
MAX_TOOLS = 20
"""Maximum tools whose changes are shown; the rest are only named."""
CONFIRM = "Apply rules and permissions to the server and its tools as they are now? [y/N] "


def describe_changes(server: str, target: str, tools: Iterable[tuple[str, ToolOrigin]]) -> str:
    """Return the changes to a server and to its tools, which are passed by name; empty if nothing has changed."""
    changed = [(name, origin) for name, origin in tools if origin.changed]
    if not changed:
        return ""
    return "\n".join([f"The MCP server {visible_name(server)} has changed since it was first seen:", *_lines(target, changed)])


def _lines(target: str, named: Sequence[tuple[str, ToolOrigin]]) -> Iterator[str]:
    changed_server = next((origin for _, origin in named if "server" in origin.changed), None)
    if changed_server is not None:
        yield f"  before  {_one_line(changed_server.target_before) or '(not known)'}"
        yield f"  now     {_one_line(target)}"
    changed = [(name, origin) for name, origin in named if "tool" in origin.changed]
    for name, origin in changed[:MAX_TOOLS]:
        yield f"  {visible_name(name)}"
        lines = cut(origin.diff, MAX_SHOWN).split("\n") if origin.diff else ["(the earlier version is not known)"]
        yield from (f"    {diff_line(line)}" for line in lines)
    if len(changed) > MAX_TOOLS:
        names = ", ".join(visible_name(name) for name, _ in changed[MAX_TOOLS:])
        yield f"  and {pluralize(len(changed) - MAX_TOOLS, 'other tool')}: {cut(names, MAX_SHOWN)}"


def _one_line(target: str) -> str:
    """Return a command or address on one line."""
    return cut(visible(target), MAX_SHOWN).replace("\n", " ")
