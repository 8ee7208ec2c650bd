"""Handles for running experiments, and the watchers that show their progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from agentnb.display.texts.states import end_words
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.running.control import Control, Progress, ProgressWatcher
from agentnb.runtime.host.host import host_here
from agentnb.runtime.threads import TICK


class LiveExperiment:
    """A handle for an experiment running in the background. ``await`` it, or call `result`, to get the results."""

    def __init__(self, control: Control, future: Future[Results]) -> None:
        self.control = control
        self._future = future

    @property
    def id(self) -> str:
        """The name of the experiment."""
        return self.control.id

    @property
    def progress(self) -> Progress:
        """The current progress."""
        return self.control.progress

    @property
    def done(self) -> bool:
        """True once the experiment has ended."""
        return self._future.done()

    def pause(self) -> None:
        """Start no further cells; active ones continue."""
        self.control.pause()

    def resume(self) -> None:
        """Start further cells again."""
        self.control.resume()

    def stop(self) -> None:
        """Start no further cells, and cancel active ones. Running the experiment again continues from there."""
        self.control.stop()

    def result(self, timeout: float | None = None) -> Results:
        """Wait up to ``timeout`` seconds for the end, and return the results; raise whatever the experiment raised."""
        return self._future.result(timeout)

    def add_done_callback(self, call: Callable[[Future[Results]], object]) -> None:
        """When the experiment has ended, call a function with the future of the results, on the experiment's thread."""
        self._future.add_done_callback(call)

    def wait(self) -> Results:
        """Wait for the end. An interrupt stops the experiment, and is raised once it has ended."""
        try:
            while not self._future.done():
                wait([self._future], timeout=TICK)
        except KeyboardInterrupt:
            self.stop()
            wait([self._future])
            raise
        return self._future.result()

    def __await__(self) -> Generator[Any, None, Results]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        return progress_line(self.progress)


@contextmanager
def watch_experiment(control: Control, watch: ProgressWatcher | None, *, show: bool) -> Iterator[None]:
    """Show a running experiment to its watchers: ``watch``, and either the notebook in which it was started or a line in a
    terminal.
    """
    if watch is not None:
        control.watchers.append(watch)
    offered = host_here().experiment
    view = offered(control) if offered is not None else None
    if show and view is not None:
        control.watchers.append(view)
    bar = _bar(control) if show and view is None and sys.stderr.isatty() else None
    try:
        yield
    finally:
        if not control.progress.is_over:  # it was cut off before its first cell
            control.end(spent=False)
        if bar is not None:
            bar()


def progress_line(progress: Progress) -> str:
    """Return the progress of an experiment on one line."""
    state = "ended" if progress.state == "done" else progress.state
    parts = [f"{state}: {progress.done:,} of {progress.total:,} runs"]
    if progress.running:
        parts.append(f"{progress.running} running")
    if progress.failed:
        reasons = ", ".join(f"{count} x {end_words(reason)}" for reason, count in progress.reasons)
        parts.append(f"{progress.failed} did not complete ({reasons})")
    if progress.rate is not None and progress.done < progress.total:
        parts.append(f"{rate_told(progress.rate)} a second, {duration_told(progress.seconds_left or 0)} left")
    parts.append(cost_told(progress))
    return ", ".join(parts)


def rate_told(rate: float) -> str:
    """Return a rate with three significant digits."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def cost_told(progress: Progress) -> str:
    """Return the cost so far, compared with the estimate and the budget."""
    cost = "cost unknown" if progress.cost is None else f"${progress.cost:.4g}"
    if progress.cost_expected:
        cost += f" of ${progress.cost_expected:.4g} expected"
    return cost if progress.budget is None else f"{cost}, budget ${progress.budget:g}"


def duration_told(seconds: float) -> str:
    """Return a duration such as ``12 s``, ``3 min 5 s`` or ``2 h 10 min``."""
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {remainder} s" if minutes else f"{remainder} s"


def _bar(control: Control) -> Callable[[], None]:
    """Show a progress bar in a terminal; return a function that closes it."""
    from tqdm import tqdm  # type: ignore[import-untyped]  # it has no types; only needed in a terminal

    bar = tqdm(total=control.total, unit="run", desc=control.id)

    def draw(progress: Progress) -> None:
        bar.n = progress.done
        bar.set_postfix_str(", ".join([*([f"{progress.failed} failed"] if progress.failed else []), cost_told(progress)]))

    control.watchers.append(draw)
    close: Callable[[], None] = bar.close
    return close
