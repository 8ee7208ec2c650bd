"""The runs nested in a run, as they are shown at the tool call that began them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from agentnb.core.log.events import AnyEvent, Delta, Event, RunFinished, TextDelta
from agentnb.core.run.agent_state import PlanPosition
from agentnb.display.card.compact import compact_pieces
from agentnb.display.card.many_runs import ManyRuns
from agentnb.display.markup import NOTHING, Html, joined, tag
from agentnb.display.parts.head import state_html
from agentnb.display.style import inlined
from agentnb.display.texts.figures import meta
from agentnb.display.texts.labels import first_line
from agentnb.runtime.host.host import Beginning

MAX_CARDS = 4
"""Runs of one call that are shown one by one; of more, only a line is."""
MAX_KEPT = 200
"""Runs nested in one run that are kept whole; of more, as of the steps of a long workflow, the oldest are a line."""
MAX_DEPTH = 3
"""Levels of nested runs that are shown within one another."""
MAX_SAYING = 2_000
"""Characters kept of a reply while it streams, of which the last line is shown."""


class NestedRun:
    """One nested run: the watcher that notes that it has changed."""

    def __init__(
        self, beginning: Beginning, changed: Callable[[], None], depth: int, spoke: Callable[[], None] | None = None
    ) -> None:
        """``spoke`` is called, from any thread, when more of a reply has come in."""
        self.run, self.name, self.stored = beginning.run, beginning.agent, beginning.stored
        self.run_id = beginning.run_id
        self.within = NestedRuns(depth + 1)
        self.changes = 0
        self.is_over = False
        self.saying = ""
        """The end of the reply that streams."""
        self._changed = changed
        self._spoke = spoke

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Note that the run has changed."""
        if isinstance(item, Event):
            self.is_over = self.is_over or isinstance(item, RunFinished)
            self.saying = ""
            self._told()
        elif self._spoke is not None and isinstance(item, TextDelta):
            self.saying = (self.saying + item.text)[-MAX_SAYING:]
            self._spoke()

    def nested(self, beginning: Beginning) -> NestedRun | None:
        """Return the watcher of a run that is nested in this one."""
        return self.within.add(beginning, self._told)

    def _told(self) -> None:
        self.changes += 1
        self._changed()

    def html(self, folds: Mapping[str, bool]) -> Html:
        """Return the run, folded: its state and progress; it opens to its rounds."""
        key = f"nested:{self.run_id}"
        name = tag("b", "nested-name", first_line(self.name, 60)) if self.name else NOTHING
        figures = tag("span", "meta", first_line(", ".join(meta(self.run)), 200))
        head = tag("span", "nested-line", Html(" ".join(part for part in (state_html(self.run), name, figures) if part)))
        inner = joined(*[self.within.html(call_id, folds) for call_id in self.within.calls])
        body = tag("div", "nested-body", *compact_pieces(self.run, stored=self.stored), inner)
        summary = tag("summary", "nested-summary", head)
        return tag("details", "nested", summary, body, data_fold=key, open=folds.get(key, False))


class NestedRuns:
    """The runs nested in one run, by the tool call that began them."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._few: dict[str, list[NestedRun]] = {}
        self._many: dict[str, ManyRuns] = {}
        self._changes: dict[str, int] = {}
        self._kept: deque[tuple[str, NestedRun]] = deque()

    def add(
        self, beginning: Beginning, changed: Callable[[], None], spoke: Callable[[], None] | None = None
    ) -> NestedRun | None:
        """Return the watcher of a run that begins.

        ``changed`` is called, from any thread, when it has changed; ``spoke`` when more of a reply has come in.
        """
        call_id = beginning.call_id
        if call_id is None or self._depth >= MAX_DEPTH:
            return None

        def note_change() -> None:
            self._changes[call_id] = self._changes.get(call_id, 0) + 1
            if nested_run.is_over:
                self._many[call_id].ended(nested_run.run_id)
            changed()

        nested_run = NestedRun(beginning, note_change, self._depth, spoke)
        self._many.setdefault(call_id, ManyRuns()).add(nested_run.run_id, nested_run.run)
        few = self._few.setdefault(call_id, [])
        if self._many[call_id].count <= MAX_CARDS:
            few.append(nested_run)
            self._kept.append((call_id, nested_run))
            self._let_go()
        else:
            few.clear()
        return nested_run

    def _let_go(self) -> None:
        """Let go of the oldest run that is over, if there are too many."""
        if len(self._kept) > MAX_KEPT:
            oldest = next((entry for entry in self._kept if entry[1].is_over), None)
            if oldest is not None:
                self._kept.remove(oldest)
                call_id, run = oldest
                self._few[call_id] = [kept for kept in self._few[call_id] if kept is not run]

    def share(self, other: NestedRuns) -> None:
        """Hold what ``other`` holds, and what is added to either from now on."""
        self._few, self._many, self._changes, self._kept = other._few, other._many, other._changes, other._kept

    @property
    def plan_position(self) -> PlanPosition | None:
        """How far the plan has come that the newest of them executes; None if none does."""
        positions = (nested_run.run.plan_position for _, nested_run in reversed([*self._kept]) if not nested_run.is_over)
        return next((position for position in positions if position is not None), None)

    @property
    def calls(self) -> list[str]:
        """The calls that began runs."""
        return list(self._many)

    def changes(self, call_id: str) -> int:
        """Return a number that grows with each change of the runs of a call."""
        return self._changes.get(call_id, 0)

    def saying(self, call_id: str) -> str:
        """Return the last line of what the newest run of a call is saying; empty while it says nothing."""
        few = self._few.get(call_id)
        return few[-1].saying.rstrip().rpartition("\n")[2] if few else ""

    def html(self, call_id: str, folds: Mapping[str, bool]) -> Html:
        """Return the runs of a call: each by itself, or a line about many."""
        many = self._many.get(call_id)
        if many is None:
            return NOTHING
        few = self._few.get(call_id, [])
        are_kept = few and len(few) == many.count
        return inlined(
            joined(*[nested_run.html(folds) for nested_run in few]) if are_kept else tag("div", "nested", many.html())
        )
