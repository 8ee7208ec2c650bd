"""Subject of a tool: the argument that a person's rules are about, such as a command, a path or an address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolSpec
from agentnb.errors import InvalidTool, suggest_names

Flag: TypeAlias = Literal["bash", "file_read", "file_write", "git", "github", "network"]
"""Permission required by a built-in tool; functions require none."""
FLAGS: tuple[Flag, ...] = ("bash", "file_read", "file_write", "git", "github", "network")
READ_TOOL, WRITE_TOOL = "read_file", "write_file"
SubjectKind: TypeAlias = Literal["command", "path", "url"]
KINDS: tuple[SubjectKind, ...] = ("command", "path", "url")
CallNature: TypeAlias = Literal["reads", "contained", "changes", "sensitive"]
"""Effect of a single call, if the tool alone does not determine it: only reads; changes data inside a sandbox; changes the
world; or touches files that may hold keys."""


class Subject(NamedTuple):
    """The argument that rules with brackets match, such as ``write_file(data/**)``."""

    kind: SubjectKind
    argument: str
    content: str = ""
    """For a path: the argument with the complete new text of the file, if any."""


def subject_of(tool: Any) -> Subject | None:
    """Return the subject of a tool, or None if it has none."""
    return getattr(tool, "subject", None)  # any class may be a tool


def kind_of_subject(tool: Any) -> SubjectKind | None:
    """Return the kind of a tool's subject, or None if it has none."""
    subject = subject_of(tool)
    return None if subject is None else subject.kind


def named_subject(spec: ToolSpec, settings: Mapping[str, Any]) -> Subject | None:
    """Return the subject named in the settings of a tool: a parameter, and for a path optionally its content.

    Raises `InvalidTool` for an unknown parameter, and for more than one.
    """
    named: dict[str, str] = {kind: settings[kind] for kind in KINDS if settings.get(kind)}
    content = settings.get("content", "")
    properties = spec.input_schema.get("properties", {})
    for parameter in (*named.values(), *([content] if content else ())):
        if parameter not in properties:
            raise InvalidTool(f"{spec.name} has no parameter {parameter!r}", suggest_names(str(parameter), properties))
    if len(named) > 1 or (content and "path" not in named):
        problem = f"{spec.name} declares {', '.join([*named, *(['content'] if content else [])])}"
        raise InvalidTool(problem, "Name one parameter: a command, a path or a url; content may accompany a path")
    return next((Subject(kind, named[kind], content) for kind in KINDS if kind in named), None)


def value_of_subject(tool: Any, arguments: Any) -> str | None:
    """Return the subject of a call or its default, or None if it is missing, so that the tool will refuse the arguments."""
    subject = subject_of(tool)
    arguments = {} if arguments is None else arguments
    if subject is None or not isinstance(arguments, dict):
        return None
    properties = tool.spec.input_schema.get("properties", {})
    value = arguments.get(subject.argument, properties.get(subject.argument, {}).get("default"))
    return value if isinstance(value, str) else None


def shows_change(tool: Any) -> bool:
    """True if the new text of a file is known before a call to the tool, so that a question can show the change."""
    subject = subject_of(tool)
    return subject is not None and (bool(subject.content) or getattr(tool, "new_text", None) is not None)


def text_after(tool: Any, arguments: Any, before: str | None) -> str | None:
    """Return the text of the file after a call to a tool with `shows_change`, or None if the call fails.

    ``before``: the current text, or None for a new file.
    """
    subject, new_text = subject_of(tool), getattr(tool, "new_text", None)
    if subject is None or not isinstance(arguments, dict):
        return None
    after = arguments.get(subject.content) if new_text is None else new_text(arguments, before)
    return after if isinstance(after, str) else None


def flag_of(tool: Any) -> Flag | None:
    """Return the permission that a tool requires, or None."""
    return getattr(tool, "flag", None)


def origin_of(tool: Any) -> ToolOrigin | None:
    """Return the MCP server of a tool, with changes since the first use, or None for any other tool."""
    return getattr(tool, "origin", None)


def has_changed(tool: Any) -> bool:
    """True for a tool of an MCP server if the tool or the server has changed since its first use."""
    origin = origin_of(tool)
    return origin is not None and bool(origin.changed)


def reads_tree(tool: Any) -> bool:
    """True if a call to a tool reads everything below its path."""
    return bool(getattr(tool, "reads_tree", False))


def file_tools_of(tool: Any) -> tuple[str, ...]:
    """Return the file tools whose path rules also apply to a tool, because the tool reads or writes the file at its path."""
    subject = subject_of(tool)
    if subject is None or subject.kind != "path" or reads_tree(tool):  # such tools skip protected files themselves
        return ()
    effects = getattr(tool, "effects", None) or ()
    reads = "read" in effects or (shows_change(tool) and not subject.content)
    writes = "write" in effects or subject.content
    return (*((READ_TOOL,) if reads else ()), *((WRITE_TOOL,) if writes else ()))


def depends_on_call(tool: Any) -> bool:
    """True if `nature_of` varies between calls to a tool."""
    return getattr(tool, "nature", None) is not None


def nature_of(tool: Any, arguments: Any, work_dir: Path) -> CallNature | None:
    """Return the nature of a call, or None if the declared effects determine it."""
    nature = getattr(tool, "nature", None)
    if nature is None:
        return None
    result: CallNature = nature(arguments, work_dir)
    return result
