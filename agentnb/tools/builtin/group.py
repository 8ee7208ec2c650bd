"""Groups of built-in tools, with their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from agentnb.tools.function import FunctionTool
from agentnb.tools.subject import CallNature, Flag
from agentnb.tools.tool import ToolContext, ToolOutcome, ToolRefused

NatureOf: TypeAlias = Callable[[Any, Path], CallNature]
"""Function that returns the nature of a call from its arguments and the folder of the run."""
NewText: TypeAlias = Callable[[Mapping[str, Any], str | None], str | None]
"""Function that takes the arguments of a call and the old text of the file (None for a new file). Returns the text after the
call, or None if the call fails."""


@dataclass(frozen=True)
class ToolGroup:
    """A group of built-in tools and its settings. As an item of ``tools=``, it stands for all tools in the group."""

    word: ClassVar[str]
    """Name of the group in ``tools=``."""
    tool_names: ClassVar[tuple[str, ...]]
    """Names of the tools, in order."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # the tools are created again

    @cached_property
    def tools(self) -> tuple[BuiltinTool, ...]:
        """The tools, in a fixed order."""
        return self._make_tools()

    def _make_tools(self) -> tuple[BuiltinTool, ...]:
        """Create the tools with these settings."""
        raise NotImplementedError

    @property
    def as_logged(self) -> dict[str, Any]:
        """Settings that differ from the defaults, as plain data without secrets."""
        default = type(self)()
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(default, name)}

    @classmethod
    def of_log(cls, logged: Mapping[str, Any], *, is_trusted: bool) -> ToolGroup:
        """Recreate the group from logged settings. ``is_trusted``: accept settings that loosen restrictions.

        Raises `SettingsError` for settings that only the person can provide again.
        """
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in logged.items() if name in names})

    def check_usable(self) -> None:
        """Raise `SettingsError`, naming what to install or set, if the tools cannot work here."""


class BuiltinTool(FunctionTool):
    """A tool of a group. ``nature``, ``new_text`` and ``reads_tree`` describe a call for the permissions of a run."""

    def __init__(
        self,
        group: ToolGroup,
        function: Callable[..., Any],
        *,
        flag: Flag | None = None,
        nature: NatureOf | None = None,
        new_text: NewText | None = None,
        reads_tree: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(function, flag=flag, **settings)
        self.group = group
        self.nature = nature
        self.new_text = new_text
        self.reads_tree = reads_tree

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Call the function. A refusal becomes an error result."""
        try:
            return await super().run(arguments, context)
        except ToolRefused as refused:
            return refused.outcome

    def check_usable(self) -> None:
        """Raise `SettingsError` if the tool cannot work here."""
        self.group.check_usable()

    def __reduce__(self) -> tuple[Any, ...]:
        return tool_of_group, (self.group, self.spec.name)


def tool_of_group(group: ToolGroup, name: str) -> BuiltinTool:
    """Return the tool of a group by name."""
    return next(tool for tool in group.tools if tool.spec.name == name)
