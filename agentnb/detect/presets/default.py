"""Our own rules: few, each for one kind of trouble, quick enough to look on while a run goes."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.log.events import AnyEvent, CommandReceived, RoundFinished, TodosChanged
from agentnb.core.run.facts import RunFacts
from agentnb.detect.blocks.errors import FailingTool
from agentnb.detect.blocks.nothing_new import NothingNew
from agentnb.detect.blocks.rounds import NOTHING, RoundDetector
from agentnb.detect.blocks.texts import ALIKE, Embed, RepeatedText, UnheededMessage
from agentnb.detect.blocks.todos import PlanningOnly, ReopenedTodo, TalkWithOpenTodos
from agentnb.detect.detector import Finding
from agentnb.detect.presets.preset import Preset, Source, rule


class Default:
    """The rules of `default` as one detector: one look at each event, however many rules there are.

    Loops: `NothingNew`, of calls, and `RepeatedText`, of replies. Stalls: `PlanningOnly`, `TalkWithOpenTodos` and
    `UnheededMessage`. Failures: `FailingTool`. Discipline: `ReopenedTodo`. ``texts=False`` leaves out all comparisons of texts;
    ``alike`` and ``embed`` are those of `RepeatedText`.
    """

    def __init__(self, *, texts: bool = True, embed: Embed | None = None, alike: float = ALIKE) -> None:
        self._reopened = ReopenedTodo()
        self._rules: tuple[RoundDetector, ...] = (
            NothingNew(),
            FailingTool({4: "nudge", 6: "block", 8: "stop"}),
            PlanningOnly(),
            TalkWithOpenTodos({3: "nudge", 5: "stop"}),
            *([RepeatedText(embed=embed, alike=alike), UnheededMessage()] if texts else []),
        )
        self._looks = tuple([one.finished for one in self._rules])  # bound once: this runs in every round

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of its rules."""
        return tuple([one.rule for one in (*self._rules, self._reopened)])

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Take in an event."""
        kind = type(event)
        if kind is RoundFinished:
            one = run.last_round
            found: tuple[Finding, ...] = ()
            for look in self._looks:
                if more := look(one, run):
                    found = (*found, *more)
            return found
        if kind is TodosChanged:
            return self._reopened.take(event, run)
        if kind is CommandReceived and event.command == "say":  # type: ignore[union-attr]  # the type says it, not mypy
            for one_rule in self._rules:
                one_rule.spoke(event)  # type: ignore[arg-type]
        return NOTHING


PRESETS = (
    Preset(
        "default",
        Source("agentnb", file="agentnb/detect/presets/default.py"),
        (rule(Default),),
        "The same calls or replies again with nothing new between, failing tools, planning or talk instead of work",
    ),
    Preset(
        "default_without_texts",
        Source("agentnb", file="agentnb/detect/presets/default.py"),
        (rule(Default, texts=False),),
        "The same without the comparison of replies, for a tenth of the time",
    ),
)
