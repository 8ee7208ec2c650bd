"""``agentnb.label``: judges runs by hand, one after the other, using keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

from IPython.core.getipython import get_ipython
from traitlets import Int, List, Unicode

from agentnb.core.guidance import Guidance
from agentnb.detect.guidance_rules import INFORMS
from agentnb.detect.run import Run
from agentnb.display.css import style_sheet
from agentnb.display.lists.blind_view import blind_html
from agentnb.display.markup import tag
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError
from agentnb.experiments.results.recorded_arms import arm_of
from agentnb.interchange.files import RunSource, folder_of, load_traces
from agentnb.notebook.frontend import is_attended
from agentnb.notebook.widget_tools import STATIC, close, error_words, hear_while_busy, script, synced_trait, view_bundle
from agentnb.notebook.worker_thread import worker
from agentnb.store.run_labels import FILE, Label, append_label, assessments_by_run, read_labels, subject_of
from agentnb.store.store import Store

HEALTHY_OR_FAILED: Mapping[str, int] = {"healthy": 0, "failed": 1}
FOLLOWED_OR_NOT: Mapping[str, int] = {"followed": 1, "not followed": 0}
MAX_LABELS = 9
"""Maximum number of labels, since each needs a key."""
AGAIN = "Run this cell again to continue."
Value = int | str


def label(
    source: RunSource,
    path: str | Path | None = None,
    *,
    labels: Mapping[str, Value] | Iterable[str] | None = None,
    who: str = "",
    followed: bool = False,
    sample: int | None = None,
    seed: int = 0,
) -> Labeller:
    """Return a widget for judging runs one after the other, hiding the judgements of detectors, guidance and policies.

    Keys: 1 to 9 judge the run and move to the next unlabelled one, n and p move to the next and previous run, and u undoes the
    last judgement. Each judgement is appended to ``path`` at once (as JSON Lines if it ends with ``.jsonl``, otherwise as CSV),
    and the next call continues there; `agentnb.labels` reads the file. The default is ``labels.csv`` in the folder or store of
    ``source``, where its labels determine the outcomes of the runs, or else in the working folder.

    ``source``: runs, or anything that `load_traces` accepts. ``labels``: at most nine words with their stored values,
    or a list of names. The words healthy and failed set the outcome of a run. ``who``: the judge. ``followed``: instead
    of runs, judge whether the reply to each reminder in them followed the reminder. ``sample``: the number of runs of
    each variant of an experiment, drawn at random using ``seed``, so that each person gets the same ones. Samples, and
    runs of several variants, are shown in random order.

    Raises `SettingsError` if the labels are invalid, or if there are no runs or reminders.
    """
    if labels is None:
        labels = FOLLOWED_OR_NOT if followed else HEALTHY_OR_FAILED
    runs = _draw_sample(load_traces(source), sample, seed)
    subjects = [subject for run in runs for subject in (_reminders(run) if followed else [Subject(run)])]
    return Labeller(subjects, _beside(source) if path is None else Path(path), _check_labels(labels), who)


def _draw_sample(runs: Sequence[Run], sample: int | None, seed: int) -> Sequence[Run]:
    """Return a sample of each variant's runs, in random order. The runs of a single variant are unchanged without a
    ``sample``.
    """
    if sample is not None and (type(sample) is not int or sample < 1):
        raise SettingsError(f"sample must be a number of runs, got {sample!r}", "Give a whole number of at least 1, such as 30")
    arms: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: sha256(f"{seed} {run.id}".encode()).digest()):
        arms.setdefault(arm_of(run), []).append(run)
    if sample is None and len(arms) < 2:
        return runs
    if len(arms) > 1:
        arms.pop("", None)  # nested runs are parts of others
    kept = {run.id for arm in arms.values() for run in arm[:sample]}
    # Not the hash used for drawing, which would put the arm with the smaller share first.
    return sorted((run for run in runs if run.id in kept), key=lambda run: sha256(f"{run.id} {seed}".encode()).digest())


class Subject(NamedTuple):
    """A run to judge, or a reminder in it."""

    run: Run
    reminder: str = ""
    """The reminder's round and its position in the round, from 1, as in `Label`."""
    given: Guidance | None = None

    @property
    def key(self) -> str:
        """The subject's key in labels."""
        return subject_of(self.run.id, self.reminder)

    @property
    def html(self) -> str:
        """The run or, for a reminder, the run up to the reply to it."""
        return (
            blind_html(self.run) if self.given is None else blind_html(self.run, int(self.reminder.split(".")[0]), self.given)
        )


def _reminders(run: Run) -> Iterator[Subject]:
    """Yield a run's reminders that ask for something and were replied to."""
    for run_round in run.rounds:
        for number, reminder in enumerate(run_round.guidance, 1):
            if reminder.cell not in INFORMS and run_round.reply is not None:
                yield Subject(run, f"{run_round.index + 1}.{number}", reminder)


def _beside(source: RunSource) -> Path:
    """Return the label file for a source."""
    folder = folder_of(source) if isinstance(source, Store | str | Path) else None
    return Path(FILE) if folder is None else folder / FILE


def _check_labels(labels: Mapping[str, Value] | Iterable[str]) -> dict[str, Value]:
    values: dict[Any, Any] = dict(labels) if isinstance(labels, Mapping) else {}
    if not isinstance(labels, Mapping | str):
        values = {word: word for word in labels}
    is_valid = all(isinstance(word, str) and word.strip() and type(value) in (int, str) for word, value in values.items())
    if not 2 <= len(values) <= MAX_LABELS or not is_valid or "" in values.values():
        raise SettingsError(f"labels={labels!r} must be two to nine labels", 'Write labels={"healthy": 0, "failed": 1}')
    return values


class Labeller:
    """Runs or reminders to judge by hand. ``place``: index of the displayed one; ``given``: labels by `Subject.key`."""

    def __init__(self, subjects: list[Subject], path: Path, labels: dict[str, Value], who: str) -> None:
        if not subjects:
            raise SettingsError("There is nothing to judge", "Give runs or a path to runs; reminders need runs with guidance")
        self.subjects, self.path, self.labels, self.who = subjects, path, labels, who
        self._what = "reminder" if subjects[0].reminder else "run"
        stored = read_labels(path) if path.exists() else []
        own = [item for item in stored if item.who == who]
        self.given: dict[str, Value] = {item.subject: item.label for item in own if item.label is not None}
        self._words = {item.subject: item.word for item in own}
        self._undone: list[tuple[int, Value | None, str]] = []
        """The index, label and word before each judgement made in this widget."""
        self._widget: Any = None
        self.place = 0
        self.go(self._next_open(-1))

    def __repr__(self) -> str:
        return f"{self.told}. In a notebook, this is a widget. {AGAIN}"

    @property
    def told(self) -> str:
        """The progress: ``Run 3 of 20, 2 judged``."""
        judged = sum(subject.key in self.given for subject in self.subjects)
        position = f"{self._what.capitalize()} {self.place + 1:,} of {len(self.subjects):,}"
        if judged == len(self.subjects):
            return f"{position}. All {pluralize(judged, self._what)} have been judged: {self.path}"
        return f"{position}, {judged:,} judged"

    def judge(self, number: int) -> None:
        """Label the displayed run, where ``number`` counts labels from 1; save the label, and move to the next unlabelled
        run.
        """
        if not 1 <= number <= len(self.labels):
            raise SettingsError(f"There is no label {number}", f"Choose 1 to {len(self.labels)}")
        key = self.subjects[self.place].key
        before = self.given.get(key), self._words.get(key, "")
        word, value = [*self.labels.items()][number - 1]
        self._save(self.place, value, word, perf_counter() - self._since)
        self._undone.append((self.place, *before))
        self.go(self._next_open(self.place))

    def undo(self) -> None:
        """Undo the last judgement made in this widget, and show its run again."""
        if not self._undone:
            raise SettingsError("There is no judgement to undo", "Use n and p to reach other runs and judge them again")
        index, value, word = self._undone[-1]
        self._save(index, value, word, None)
        self._undone.pop()
        self.go(index)

    def go(self, place: int) -> None:
        """Show the run with this index, clamped to the list."""
        self.place = max(0, min(place, len(self.subjects) - 1))
        self._since = perf_counter()
        self._show()

    def _save(self, index: int, value: Value | None, word: str, seconds: float | None) -> None:
        """Append the label to the file; None removes the run's label. Updates the run's outcome."""
        (run, reminder, _), key = self.subjects[index], self.subjects[index].key
        took = None if seconds is None else round(seconds, 1)
        append_label(self.path, Label(run.id, value, took, datetime.now(UTC), self.who, word, reminder))
        self._words[key] = word
        if value is None:
            self.given.pop(key, None)
        else:
            self.given[key] = value
        run.set_labels(assessments_by_run(read_labels(self.path)).get(run.id, ()))

    def _next_open(self, start: int) -> int:
        """Return the next unlabelled run after ``start``, wrapping around, or ``start`` if all are labelled."""
        indexes = [*range(start + 1, len(self.subjects)), *range(max(0, start))]
        return next((index for index in indexes if self.subjects[index].key not in self.given), max(0, start))

    # The widget

    @property
    def _saved(self) -> str:
        """The text that remains in the notebook without a kernel. It must never become outdated, so it gives no count."""
        path, amount = str(self.path), pluralize(len(self.subjects), self._what)
        return f"{amount} to judge by hand. Judgements are in {path}: agentnb.labels({path!r}) reads them. {AGAIN}"

    def _repr_mimebundle_(self, **_include_and_exclude: Any) -> dict[str, Any]:
        if not is_attended(get_ipython()):
            return {"text/plain": repr(self)}
        if self._widget is None:
            key, remains = uuid4().hex, tag("p", "", self._saved)
            self._widget = hear_while_busy(_widget_class()(words=[*self.labels], model_id=key, key=key, remains=remains))
            self._widget.on_msg(self._hear)
            self._show()
        return view_bundle(self._widget) | {"text/plain": self._saved, "text/html": tag("p", "", self._saved)}

    def close(self) -> None:
        """Remove the widget from the kernel and from all pages."""
        if self._widget is not None:
            widget, self._widget = self._widget, None
            close(widget)

    def _show(self) -> None:
        if self._widget is None:
            return
        subject = self.subjects[self.place]
        value = self.given.get(subject.key)
        chosen = next((number for number, label_value in enumerate(self.labels.values(), 1) if label_value == value), 0)
        with self._widget.hold_sync():
            self._widget.html, self._widget.told = subject.html, self.told
            self._widget.place, self._widget.chosen = self.place, chosen

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        if isinstance(message, dict):
            worker("agentnb-label").do(partial(self._do, message))

    def _do(self, message: dict[str, Any]) -> None:
        """Perform the action of a key or button, unless it was meant for a run that is no longer displayed."""
        if self._widget is None or message.get("place") != self.place:
            return
        actions: dict[str, Callable[[], None]] = {
            "judge": lambda: self.judge(int(message["number"])),
            "next": lambda: self.go(self.place + 1),
            "previous": lambda: self.go(self.place - 1),
            "undo": self.undo,
        }
        error = ""
        try:
            actions.get(str(message.get("do")), lambda: None)()
        except Exception as broken:  # including messages from other senders, and runs that cannot be drawn
            error = error_words(broken, "A labelling action")
        self._widget.error = error


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class LabelWidget(anywidget.AnyWidget):
        """Shows a run, the labels and the progress. All HTML comes from the kernel."""

        _esm = script("document.js", "label.js")
        _css = style_sheet() + (STATIC / "label.css").read_text("utf-8")
        html = synced_trait(Unicode)
        told = synced_trait(Unicode)
        error = synced_trait(Unicode)
        key = synced_trait(Unicode)
        """Id of the widget's model, which the page uses to find the widget in the notebook."""
        remains = synced_trait(Unicode)
        """Content that the page shows instead if the kernel is gone."""
        words = synced_trait(List, Unicode())
        place = synced_trait(Int)
        chosen = synced_trait(Int)
        """The label of the displayed run, counted from 1; 0 if it has none."""

    return LabelWidget
