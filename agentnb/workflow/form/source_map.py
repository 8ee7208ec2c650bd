"""Where the texts of a workflow stand: what the checks need to know of a file besides the steps that were read from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentnb.workflow.form.yaml_source import Node, ScalarNode, texts_in

OF_WORKFLOW = ""
"""The owner of a text that belongs to no step and no agent, but to the workflow."""


@dataclass(frozen=True, slots=True)
class Use:
    """A text that may hold templates."""

    owner: str
    """The path of a step; of an agent its name; or `OF_WORKFLOW`."""
    is_of_agent: bool
    key: str
    node: ScalarNode


@dataclass(slots=True)
class SourceMap:
    """What is known of a file: its texts with templates, and the lines of the keys of its steps."""

    uses: list[Use] = field(default_factory=list)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    """By the path of a step and the key."""
    names: dict[str, str] = field(default_factory=dict)
    """What a step is called in messages, such as ``workflow step[2]``, by its path."""
    unread: set[str] = field(default_factory=set)
    """The ids of steps that could not be read: a problem already, so that nothing that names them is another."""

    def add_use(self, owner: str, key: str, node: Node | None, *, is_of_agent: bool = False) -> None:
        """Keep the texts within the value of a key."""
        for text in texts_in(node) if node is not None else ():
            self.uses.append(Use(owner, is_of_agent, key, text))

    def line(self, path: str, key: str, default: int = 0) -> int:
        """Return the line of a key of a step, of its value if it is a single one."""
        return self.lines.get((path, key), default)
