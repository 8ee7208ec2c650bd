"""Options of a card: live or saved, cut or whole, and its open folds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.display.markup import NOTHING, Html


def no_nested_runs(call_id: str, folds: Mapping[str, bool]) -> Html:
    """Return nothing: most calls start no runs."""
    return NOTHING


class Form(NamedTuple):
    """Options of a card."""

    live: bool = False
    """Has buttons, and fetches folded content when it is opened."""
    whole: bool = False
    """Shows long results in full, as in a page."""
    pictures: bool = True
    shown_above: Collection[str] = ()
    """Ids of calls whose pictures are shown above the rounds."""
    variable: str = "run"
    """The variable that holds the run, for references to full results."""
    folds: Mapping[str, bool] = MappingProxyType({})
    """Folds that the person opened or closed, by key."""
    effects: Mapping[str, Collection[str]] = MappingProxyType({})
    """The effects of the tools, by tool name."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """The settings of the run, for its limits."""
    over: bool = False
    """True if the run has ended, and no longer awaits answers."""
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs
    """Returns a call's nested runs, from its id and the folds."""

    foreign: bool = False
    """True if another product recorded the run: its messages are not yours."""
    marks: Mapping[int, Html] = MappingProxyType({})
    """Links from a round back to its findings, by round index."""
    details: bool = False
    """True if the rounds of a saved card include their details."""
    run: Run | None = None
    """The run, for the drafts of its plans."""

    def is_open(self, key: str, otherwise: bool = False) -> bool:
        """True if this fold is open."""
        return self.folds.get(key, otherwise)


def effects_of(tools: Iterable[ToolSpec]) -> dict[str, tuple[str, ...]]:
    """Return the effects of these tools, by tool name."""
    return {tool.name: tool.effects for tool in tools}
