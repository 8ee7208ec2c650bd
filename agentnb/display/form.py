"""How a card is drawn: live or saved, cut or whole, with which folds open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.display.markup import NOTHING, Html


def no_nested_runs(call_id: str, folds: Mapping[str, bool]) -> Html:
    """Return nothing: the calls of most runs begin no runs, or none that are known."""
    return NOTHING


class Form(NamedTuple):
    """How a card is drawn."""

    live: bool = False
    """With buttons, and folded content that is fetched when opened."""
    whole: bool = False
    """With long results in full, as in a page of its own."""
    pictures: bool = True
    shown_above: Collection[str] = ()
    """The calls whose pictures are shown above the rounds, by id."""
    variable: str = "run"
    """The variable that holds the run, to say where all of a long result is."""
    folds: Mapping[str, bool] = MappingProxyType({})
    """What the person has opened or closed, by the keys of the folds."""
    effects: Mapping[str, Collection[str]] = MappingProxyType({})
    """The effects of the tools, by tool name."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """The settings of the run, for its limits."""
    over: bool = False
    """The run has ended, and no longer awaits answers."""
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs
    """Returns the runs that a call began, by the id of the call, and folded so."""

    foreign: bool = False
    """Another product recorded the run: the messages in it are not yours."""
    marks: Mapping[int, Html] = MappingProxyType({})
    """What leads from a round back to its findings, by the index of the round."""
    details: bool = False
    """In a saved card: with the details in the rounds."""
    run: Run | None = None
    """The run, for the drafts of its plans."""

    def is_open(self, key: str, otherwise: bool = False) -> bool:
        """Return whether this fold is to be open."""
        return self.folds.get(key, otherwise)


def effects_of(tools: Iterable[ToolSpec]) -> dict[str, tuple[str, ...]]:
    """Return the effects of these tools, by tool name."""
    return {tool.name: tool.effects for tool in tools}
