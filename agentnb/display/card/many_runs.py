"""Many runs on one line: their number by state, the elapsed time, and the cost."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

from agentnb.detect.run import Run
from agentnb.detect.run_states import STATES
from agentnb.display.css import wrap_output
from agentnb.display.markup import NOTHING, Html, fold_tag, tag
from agentnb.display.parts.head import MARKS, chip_html, marked_html, tone
from agentnb.display.texts.labels import duration, first_line, pluralize
from agentnb.display.texts.run_figures import meta, work_words
from agentnb.display.texts.states import chip

ORDER = ("completed", "running", "waiting_on_user", "limited", "stopped", "cancelled", "interrupted", "unknown", "failed")
"""The order of states on the line."""
WORST_FIRST = ("bad", "warn", "asking", "neutral", "good")
"""Tones from worst to best; the line gets the worst tone of its ended runs."""
MAX_LISTED = 100
"""Maximum ended runs listed, and maximum failed runs listed in addition."""
MAX_PROMPT_CHARACTERS = 100
"""Maximum characters of a prompt in the list."""


class ManyRuns:
    """Counts runs. When a run ends, keeps a line of text instead of the run."""

    def __init__(self) -> None:
        self._live: dict[str, Run] = {}
        self._ended: Counter[str] = Counter()
        self._tones: set[str] = set()
        self._cost = 0.0
        self._since = self._until = 0.0
        self._lines: list[str] = []
        self._failed: list[str] = []
        self._left_out = 0

    def add(self, run_id: str, run: Run) -> None:
        """Start counting a run."""
        self._since = self._since or perf_counter()
        self._live[run_id] = run

    def note_end(self, run_id: str) -> None:
        """Count a run as ended, and release it."""
        run = self._live.pop(run_id, None)
        if run is None:
            return
        self._ended[run.status] += 1
        self._tones.add(tone(run))
        self._cost += run.spent
        self._until = perf_counter()
        kind = self._failed if run.status == "failed" else self._lines
        if len(kind) < MAX_LISTED:
            kind.append(_line(run_id, run))
        else:
            self._left_out += 1

    @property
    def is_over(self) -> bool:
        """True if all runs have ended."""
        return not self._live

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self._live) + self._ended.total()

    @property
    def states(self) -> str:
        """The number of runs by state: ``5 done, 1 running, 1 failed``."""
        counts = self._ended + Counter(run.status for run in list(self._live.values()))
        return ", ".join(f"{counts[status]:,} {STATES[status].lower()}" for status in ORDER if counts[status])

    @property
    def _seconds(self) -> float:
        return (self._until if self.is_over else perf_counter()) - self._since

    @property
    def _figures(self) -> list[str]:
        cost = self._cost + sum(run.spent for run in list(self._live.values()))
        time = duration(self._seconds) if self.is_over else f"{self._seconds // 60:.0f}:{self._seconds % 60:02.0f}"
        return [time, *([f"${cost:.4f}" if cost < 0.1 else f"${cost:.2f}"] if cost else [])]

    @property
    def text(self) -> str:
        """The line as text: ``7 runs: 5 done, 1 running, 1 failed · 3:07 · $0.0123``."""
        return " · ".join([f"{pluralize(self.count, 'run')}: {self.states}", *self._figures])

    def html(self) -> Html:
        """Return the line, with a bar while runs are in progress; after that, it expands to one line per run."""
        if self.is_over:
            kind = next((candidate for candidate in WORST_FIRST if candidate in self._tones), "neutral")
        else:
            kind = "asking" if {tone(run) for run in list(self._live.values())} == {"asking"} else "active"
        ended = self._ended.total()
        bar = tag("progress", "bar", aria_label="Runs that have ended", value=str(ended), max=str(self.count))
        pieces = [
            marked_html(kind, pluralize(self.count, "run")),
            NOTHING if self.is_over else bar,
            tag("span", "meta", *[Html(f"{tag('span', 'part', figure)} ") for figure in (self.states, *self._figures)]),
        ]
        line = Html(" ".join(piece for piece in pieces if piece))
        if not self.is_over:
            return tag("div", "head", line)
        more = [f"{self._left_out:,} more"] if self._left_out else []
        lines = tag("pre", "many-lines", "\n".join([*self._failed, *self._lines, *more]))
        return fold_tag("", "many-summary", tag("span", "many-head", line), lines)


def many_runs_html(runs: ManyRuns) -> Html:
    """Return the line as a separate output."""
    return wrap_output(tag("div", "run", runs.html()))


def run_line_html(run: Run, told: str) -> Html:
    """Return one line for a run that is shown elsewhere."""
    return wrap_output(tag("div", "quiet", chip_html(run), f" · {', '.join(meta(run))} · {told}"))


def _line(run_id: str, run: Run) -> str:
    words = [f"{MARKS[tone(run)]} {chip(run)}", *work_words(run)]
    return "  ".join([*words, first_line(run.prompt, MAX_PROMPT_CHARACTERS), run_id])
