"""Nested runs, shown at the tool calls that started them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from agentnb.core.log.events import AnyEvent, Delta, Event, RunFinished, TextDelta
from agentnb.core.run.agent_state import PlanPosition
from agentnb.display.card.compact import compact_pieces
from agentnb.display.card.many_runs import ManyRuns
from agentnb.display.css import inline_css
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag
from agentnb.display.parts.head import state_html
from agentnb.display.texts.labels import first_line
from agentnb.display.texts.run_figures import meta
from agentnb.runtime.host.host import Beginning

MAX_CARDS = 4
"""Maximum runs of a call that are shown individually; if there are more, they share a single line."""
MAX_KEPT = 200
"""Maximum nested runs kept in full; beyond that, the oldest are reduced to a line, like the steps of a long workflow."""
MAX_DEPTH = 3
"""Maximum levels of nested runs shown."""
MAX_SAYING = 2_000
"""Maximum characters kept of a streaming reply; only its last line is shown."""


class NestedRun:
    """A nested run, and the watcher that records its changes."""

    def __init__(
        self, beginning: Beginning, changed: Callable[[], None], depth: int, spoke: Callable[[], None] | None = None
    ) -> None:
        """``spoke`` is called, from any thread, when more of a reply arrives."""
        self.run, self.name, self.stored = beginning.run, beginning.agent, beginning.stored
        self.run_id = beginning.run_id
        self.within = NestedRuns(depth + 1)
        self.changes = 0
        self.is_over = False
        self.saying = ""
        """The end of the streaming reply."""
        self._changed = changed
        self._spoke = spoke

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Record a change in the run."""
        if isinstance(item, Event):
            self.is_over = self.is_over or isinstance(item, RunFinished)
            self.saying = ""
            self._record_change()
        elif self._spoke is not None and isinstance(item, TextDelta):
            self.saying = (self.saying + item.text)[-MAX_SAYING:]
            self._spoke()

    def nested(self, beginning: Beginning) -> NestedRun | None:
        """Return the watcher for a run nested in this one."""
        return self.within.add(beginning, self._record_change)

    def _record_change(self) -> None:
        self.changes += 1
        self._changed()

    def html(self, folds: Mapping[str, bool]) -> Html:
        """Return the run, folded to its state and progress; it expands to its rounds."""
        key = f"nested:{self.run_id}"
        name = tag("b", "nested-name", first_line(self.name, 60)) if self.name else NOTHING
        figures = tag("span", "meta", first_line(", ".join(meta(self.run)), 200))
        head = tag("span", "nested-line", Html(" ".join(part for part in (state_html(self.run), name, figures) if part)))
        inner = join_html(*[self.within.html(call_id, folds) for call_id in self.within.calls])
        body = tag("div", "nested-body", *compact_pieces(self.run, stored=self.stored), inner)
        return fold_tag("nested", "nested-summary", head, body, data_fold=key, open=folds.get(key, False))


class NestedRuns:
    """The runs nested within a run, by the tool call that started them."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._few: dict[str, list[NestedRun]] = {}
        self._many: dict[str, ManyRuns] = {}
        self._changes: dict[str, int] = {}
        self._kept: deque[tuple[str, NestedRun]] = deque()

    def add(
        self, beginning: Beginning, changed: Callable[[], None], spoke: Callable[[], None] | None = None
    ) -> NestedRun | None:
        """Return the watcher for a new run.

        ``changed`` is called, from any thread, when the run changes; ``spoke`` when more of a reply arrives.
        """
        call_id = beginning.call_id
        if call_id is None or self._depth >= MAX_DEPTH:
            return None

        def note_change() -> None:
            self._changes[call_id] = self._changes.get(call_id, 0) + 1
            if nested_run.is_over:
                self._many[call_id].note_end(nested_run.run_id)
            changed()

        nested_run = NestedRun(beginning, note_change, self._depth, spoke)
        self._many.setdefault(call_id, ManyRuns()).add(nested_run.run_id, nested_run.run)
        cards = self._few.setdefault(call_id, [])
        if self._many[call_id].count <= MAX_CARDS:
            cards.append(nested_run)
            self._kept.append((call_id, nested_run))
            self._let_go()
        else:
            cards.clear()
        return nested_run

    def _let_go(self) -> None:
        """Release the oldest finished run if there are too many."""
        if len(self._kept) > MAX_KEPT:
            oldest = next((entry for entry in self._kept if entry[1].is_over), None)
            if oldest is not None:
                self._kept.remove(oldest)
                call_id, run = oldest
                self._few[call_id] = [kept for kept in self._few[call_id] if kept is not run]

    def share(self, other: NestedRuns) -> None:
        """Share the contents of ``other``, including all later additions to either."""
        self._few, self._many, self._changes, self._kept = other._few, other._many, other._changes, other._kept

    @property
    def plan_position(self) -> PlanPosition | None:
        """The current position in a plan that the newest nested run is executing, if any."""
        positions = (nested_run.run.plan_position for _, nested_run in reversed([*self._kept]) if not nested_run.is_over)
        return next((position for position in positions if position is not None), None)

    @property
    def calls(self) -> list[str]:
        """The calls that started nested runs."""
        return list(self._many)

    def changes(self, call_id: str) -> int:
        """Return a number that grows with each change of a call's runs."""
        return self._changes.get(call_id, 0)

    def saying(self, call_id: str) -> str:
        """Return the last line of the reply that is streaming in a call's newest run, or ""."""
        cards = self._few.get(call_id)
        return cards[-1].saying.rstrip().rpartition("\n")[2] if cards else ""

    def html(self, call_id: str, folds: Mapping[str, bool]) -> Html:
        """Return a call's runs, either individually or as one line."""
        counted_runs = self._many.get(call_id)
        if counted_runs is None:
            return NOTHING
        cards = self._few.get(call_id, [])
        are_kept = cards and len(cards) == counted_runs.count
        return inline_css(
            join_html(*[nested_run.html(folds) for nested_run in cards])
            if are_kept
            else tag("div", "nested", counted_runs.html())
        )
