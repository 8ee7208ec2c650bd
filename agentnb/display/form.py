"""Options of a card: live or saved, cut or complete, and which folds are open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.display.markup import NOTHING, Html


def no_nested_runs(call_id: str, folds: Mapping[str, bool]) -> Html:
    """Return nothing, since most calls start no runs."""
    return NOTHING


class Form(NamedTuple):
    """Options of a card."""

    live: bool = False
    """True if the card has buttons, and fetches folded content when it is opened."""
    whole: bool = False
    """True if long results are shown in full, as in a page."""
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
    """The settings of the run, including its limits."""
    over: bool = False
    """True if the run has ended and no longer awaits answers."""
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs
    """Returns a call's nested runs, given the call's id and the folds."""

    foreign: bool = False
    """True if another product recorded the run, so its messages are not the person's own."""
    marks: Mapping[int, Html] = MappingProxyType({})
    """Links from a round back to its findings, by the index of the round."""
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
