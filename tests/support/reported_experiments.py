"""An experiment to report in which much happened: a peek, a retry, an extension, failed runs and missing values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentnb import Experiment
from agentnb.core.messages import Message, Text
from agentnb.detect.run import Run
from agentnb.errors import ModelError
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.running.live_experiment import LiveExperiment
from agentnb.models.model import Reply

HOSTILE = "<script>alert(1)</script> | `x` [click](javascript:alert(1)) <img src=x onerror=alert(1)> *bold* www.evil.example"
"""A text with markup of every kind."""
REASON = "the server was down"


class Steady:
    """Answers with a text, and says in its replies by which name it served."""

    name = "own:steady"

    def __init__(self, served: str = "steady-2026-01") -> None:
        self.served = served

    async def stream(self, request: Any) -> Any:
        prompt = request.messages[-1].text
        yield Reply(Message("assistant", (Text(f"done: {prompt}"),)), metadata={"model": self.served})


class Flaky(Steady):
    """Fails for ever on the task 4, and on the task 3 until it is mended."""

    name = "own:flaky"
    is_down = True

    async def stream(self, request: Any) -> Any:
        prompt = request.messages[-1].text
        if "task 4" in prompt or (self.is_down and "task 3" in prompt):
            raise ModelError(f"refused {HOSTILE}")
        async for part in super().stream(request):
            yield part


def is_even(run: Run, row: Any) -> bool | None:
    """Unknown of the task 5, passed of even ones, and of all of one variant."""
    number = int(row["id"].removeprefix("t"))
    return None if number == 5 else number % 2 == 0 or "flaky" in run.model


def task(number: int) -> dict[str, Any]:
    return {"id": f"t{number}", "prompt": f"Do task {number} of {HOSTILE}", "note": HOSTILE}


def troubled(folder: Path | bool = False) -> Results:
    """The results of an experiment with a peek after 5 runs, a retry, and an extension by one task."""
    flaky = Flaky("flaky <b>2</b>")
    experiment = Experiment(
        [task(number) for number in range(8)],
        {"steady": {"model": Steady()}, HOSTILE: {"model": flaky}},
        agent={"guidance": "off"},
        primary=is_even,
        folder=folder,
        places=1,
    )
    live: LiveExperiment = experiment.start(show=False, watch=lambda progress: progress.done == 5 and live.stop())
    live.wait()
    experiment.results(peek=True)
    experiment.run_sync(show=False)
    flaky.is_down = False
    experiment.retry(REASON).run_sync(show=False)
    return experiment.extend(tasks=[task(8)]).run_sync(show=False)
