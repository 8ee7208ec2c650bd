"""The subject of a tool: the argument that the rules of a person are about, such as a command, a path or an address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolSpec
from agentnb.errors import InvalidTool, near

Flag: TypeAlias = Literal["bash", "file_read", "file_write", "git", "github", "network"]
"""The permission that a built-in tool needs; functions have none."""
FLAGS: tuple[Flag, ...] = ("bash", "file_read", "file_write", "git", "github", "network")
READ_TOOL, WRITE_TOOL = "read_file", "write_file"
SubjectKind: TypeAlias = Literal["command", "path", "url"]
KINDS: tuple[SubjectKind, ...] = ("command", "path", "url")
CallNature: TypeAlias = Literal["reads", "contained", "changes", "sensitive"]
"""What one call does, where its tool alone does not say it: only reads; changes things behind a wall; changes the world; reads
what may hold keys."""


class Subject(NamedTuple):
    """The argument that a rule in brackets is about, as in ``write_file(data/**)``."""

    kind: SubjectKind
    argument: str
    content: str = ""
    """Of a path: the argument that is the whole new text of the file, if one is."""


def subject_of(tool: Any) -> Subject | None:
    """Return the subject of a tool; None if it names none."""
    return getattr(tool, "subject", None)  # anybody's class may be a tool


def kind_of_subject(tool: Any) -> SubjectKind | None:
    """Return the kind of a tool's subject; None if it names none."""
    subject = subject_of(tool)
    return None if subject is None else subject.kind


def named_subject(spec: ToolSpec, settings: Mapping[str, Any]) -> Subject | None:
    """Return the subject that the settings of a tool name: a parameter, and beside a path that of the content.

    Raises `InvalidTool` if a parameter is missing, or if several are named.
    """
    named: dict[str, str] = {kind: settings[kind] for kind in KINDS if settings.get(kind)}
    content = settings.get("content", "")
    properties = spec.input_schema.get("properties", {})
    for parameter in (*named.values(), *([content] if content else ())):
        if parameter not in properties:
            raise InvalidTool(f"{spec.name} has no parameter {parameter!r}", near(str(parameter), properties))
    if len(named) > 1 or (content and "path" not in named):
        problem = f"{spec.name} names {', '.join([*named, *(['content'] if content else [])])}"
        raise InvalidTool(problem, "Name one parameter: a command, a path or a url; a path may have content beside it")
    return next((Subject(kind, named[kind], content) for kind in KINDS if kind in named), None)


def value_of_subject(tool: Any, arguments: Any) -> str | None:
    """Return the subject of a call, else its default; None if there is none, so that the tool will refuse the arguments."""
    subject = subject_of(tool)
    arguments = {} if arguments is None else arguments
    if subject is None or not isinstance(arguments, dict):
        return None
    properties = tool.spec.input_schema.get("properties", {})
    value = arguments.get(subject.argument, properties.get(subject.argument, {}).get("default"))
    return value if isinstance(value, str) else None


def shows_change(tool: Any) -> bool:
    """Return whether the text of a file after a call of a tool is known before the call: a question shows the change."""
    subject = subject_of(tool)
    return subject is not None and (bool(subject.content) or getattr(tool, "new_text", None) is not None)


def text_after(tool: Any, arguments: Any, before: str | None) -> str | None:
    """Return the text of the file after a call of a tool that `shows_change`; None if the call fails.

    ``before``: its text as it is, None if there is no file.
    """
    subject, new_text = subject_of(tool), getattr(tool, "new_text", None)
    if subject is None or not isinstance(arguments, dict):
        return None
    after = arguments.get(subject.content) if new_text is None else new_text(arguments, before)
    return after if isinstance(after, str) else None


def flag_of(tool: Any) -> Flag | None:
    """Return the permission that a tool needs; None if it needs none."""
    return getattr(tool, "flag", None)


def origin_of(tool: Any) -> ToolOrigin | None:
    """Return the MCP server that a tool is of, with what has changed since both were first seen; None for any other tool."""
    return getattr(tool, "origin", None)


def has_changed(tool: Any) -> bool:
    """Return whether a tool is of an MCP server, and either has changed since it was first seen."""
    origin = origin_of(tool)
    return origin is not None and bool(origin.changed)


def reads_tree(tool: Any) -> bool:
    """Return whether a call of a tool reads whatever is below its path, and not its path alone."""
    return bool(getattr(tool, "reads_tree", False))


def file_tools_of(tool: Any) -> tuple[str, ...]:
    """Return the tools whose rules in brackets hold for a tool too, as it reads or writes the file at its path."""
    subject = subject_of(tool)
    if subject is None or subject.kind != "path" or reads_tree(tool):  # which leaves such files out
        return ()
    effects = getattr(tool, "effects", None) or ()
    reads = "read" in effects or (shows_change(tool) and not subject.content)
    writes = "write" in effects or subject.content
    return (*((READ_TOOL,) if reads else ()), *((WRITE_TOOL,) if writes else ()))


def depends_on_call(tool: Any) -> bool:
    """Return whether `nature_of` has to be asked about each call of a tool."""
    return getattr(tool, "nature", None) is not None


def nature_of(tool: Any, arguments: Any, work_dir: Path) -> CallNature | None:
    """Return the nature of a call; None if the effects that its tool declares say it."""
    nature = getattr(tool, "nature", None)
    if nature is None:
        return None
    result: CallNature = nature(arguments, work_dir)
    return result
