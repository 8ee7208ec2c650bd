"""Detectors that ask a model: between rounds, logged, and not called again in a replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripted_runs import look

from agentnb import Agent, Store, ToolCall, load_trace, tables
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.detect import Run, detector, findings, score
from agentnb.models.model import Reply


class Judged:
    """A model that works, and gives verdicts when asked."""

    name = "scripted:judged"

    def __init__(self, verdicts: list[str]) -> None:
        self.verdicts, self.asked = verdicts, 0

    async def stream(self, request: Request) -> Any:
        if request.system == "You judge.":
            self.asked += 1
            text = self.verdicts[self.asked - 1]
            if text == "broken":
                raise RuntimeError("the wire broke")
            yield Reply(Message("assistant", (Text(text),)), Usage(100, 5, cost=0.01))
            return
        rounds = sum(message.role == "assistant" for message in request.messages)
        part = ToolCall("look", {"n": rounds}) if rounds < 3 else Text("Done.")
        yield Reply(Message("assistant", (part,)), Usage(10, 1, cost=0.001))


@detector(family="stall", severity="nudge")
async def judge(run: Run, ask: Any) -> str | None:
    """Ask a model whether it goes on."""
    answer = await ask(f"After {len(run.rounds)} rounds: does it repeat itself?", system="You judge.")
    return "The judge says that it repeats itself" if answer == "yes" else None


def live(model: Judged, store: Store | None = None, **how: Any) -> Run:
    return Agent(model, tools=[look], detect=judge, todos=False, **how).run_sync("go", store=store)


def test_model_detector_runs_between_rounds_and_its_findings_apply() -> None:
    model = Judged(["no", "yes", "no", "no"])
    run = live(model)
    assert (run.status, model.asked) == ("completed", 4)
    assert [(finding.rule, finding.family, finding.last) for finding in run.findings] == [("judge", "stall", 1)]
    assert [bool([guidance for guidance in round.guidance if guidance.set == "detect"]) for round in run.rounds] == [
        False,
        False,
        True,
        False,
    ]


def test_model_detector_calls_are_logged_and_their_cost_counted() -> None:
    run = live(Judged(["no"] * 4))
    assert [(call.operation, call.model, call.usage.input) for call in run.model_calls] == [
        ("detector", "scripted:judged", 100)
    ] * 4
    assert run.usage.input == 4 * 100 + 4 * 10 and round(run.spent, 6) == round(4 * 0.01 + 4 * 0.001, 6)
    usage = tables.usage(run)
    assert usage[usage["operation"] == "detector"]["input_tokens"].sum() == 400


def test_budget_includes_model_detector_calls() -> None:
    run = live(Judged(["no"] * 4), budget=0.02, unpriced=True)
    assert (run.status, run.stop_reason) == ("limited", "budget") and len(run.rounds) < 4


def test_loaded_run_keeps_findings_without_calling_the_model(tmp_path: Path) -> None:
    store = Store(tmp_path)
    model = Judged(["no", "yes", "no", "no"])
    run = live(model, store)
    again = load_trace(store.path(run.id))
    assert [(one.rule, one.last, one.sentence) for one in findings(again, judge)] == [
        ("judge", 1, "The judge says that it repeats itself")
    ]
    assert score([again], [1], judge, baselines=False).iloc[0]["hits"] == 1 and model.asked == 4


def test_failing_model_detector_is_dropped_with_a_warning() -> None:
    model = Judged(["no", "broken", "no", "no"])
    run = live(model)
    assert (run.status, model.asked) == ("completed", 2)
    assert [warning.startswith("The detector judge failed and was dropped") for warning in run.warnings] == [True]
    failed = [event for event in run.events if isinstance(event, w.ModelCalled)][-1]
    assert "the wire broke" in failed.error
