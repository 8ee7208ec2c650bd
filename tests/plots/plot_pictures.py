"""Makes the pictures of docs/plots.md: ``make pictures``, or python tests/plots/plot_pictures.py docs/images/plots.

Look at them before they are kept. One run is told event by event, with times of its own; the others are of the simulated model.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[0] / "support"), str(HERE.parents[0]), str(HERE)]

from experiment_pictures import figures_of_experiments  # noqa: E402
from run_builder import START, RunBuilder, answered, called, todos_are, todos_of  # noqa: E402

from agentnb import Agent, Run, detect, plots, survey  # noqa: E402
from agentnb.core.compaction_records import Compacted  # noqa: E402
from agentnb.core.log import events as e  # noqa: E402
from agentnb.core.log import work_events as w  # noqa: E402
from agentnb.core.log.outcome import Assessment, Outcome  # noqa: E402
from agentnb.core.messages import Message, Text, ToolCall, ToolResult  # noqa: E402
from agentnb.core.questions import WaitingOnUser  # noqa: E402
from agentnb.core.usage import Usage  # noqa: E402

PIXELS_PER_INCH = 200
COLOURS = 96


class Timed(RunBuilder):
    """Adds events at times of its own."""

    def __init__(self, **opening: Any) -> None:
        super().__init__(**opening)
        self.now = 0.0

    def add(self, kind: type[e.Event], **fields: Any) -> Self:
        at = START + timedelta(seconds=self.now)
        self.run.apply(kind(seq=len(self.run.events), at=at, run_id=self.run.id, **fields))  # type: ignore[arg-type]
        return self

    def after(self, seconds: float) -> Self:
        self.now += seconds
        return self

    def asks(self, seconds: float, usage: Usage, *calls: ToolCall, text: str = "Next.") -> None:
        """The model has thought for so long, and makes these calls."""
        reply = Message("assistant", (Text(text), *calls))
        self.after(seconds).add(e.ModelReplied, message=reply, usage=usage, seconds=seconds)

    def runs(self, seconds: float, call: ToolCall, **how: Any) -> None:
        """A tool has run for so long."""
        started, *changed, (ended, fields) = answered(call, **how)
        self.extend(started).after(seconds).extend(*changed, (ended, {**fields, "seconds": seconds}))

    def begins(self) -> None:
        self.after(0.1).add(e.RoundStarted, index=self.round_count, reason="prompt" if not self.round_count else "tool_results")

    def ends(self) -> None:
        self.add(e.RoundFinished, index=self.round_count - 1, status="success")


@cache
def told() -> Run:
    """A run of nine rounds on penguins: a plan, a retry, a failed tool, a question, a compaction and an answer."""
    history = {"share": 0.8, "window": 24_000}
    run = Timed(model="anthropic:claude-sonnet-4-5", run_id="20260101-090000-7e60a1c4", settings={"history": history})
    run.after(2.4).add(w.ModelCalled, operation="planner", usage=Usage(2_100, 420, cost=0.0126), seconds=2.4)
    write = called("todo_operations", "c0")
    run.begins()
    run.asks(3.1, Usage(5_200, 310, cost=0.0203), write)
    run.runs(0.1, write, todos=todos_of(*["not-started"] * 5))
    run.ends()
    _work(run, 1, 2.2, Usage(6_400, 150, 5_000, cost=0.0080), ("completed", "in-progress"), called("load_table", "c1"), 4.2)
    _work(
        run,
        2,
        2.8,
        Usage(9_900, 180, 6_400, cost=0.0152),
        ("completed", "in-progress"),
        called("compare", "c2"),
        1.9,
        failed=True,
    )
    run.begins()
    run.add(e.RetryScheduled, attempt=1, seconds=4.0, reason="overloaded", status=529).after(4.0)
    run.asks(2.5, Usage(12_300, 210, 9_900, cost=0.0134), called("compare", "c3"))
    run.runs(
        2.2, called("compare", "c3"), todos=todos_of("completed", "completed", "in-progress", "not-started", "not-started")
    )
    run.ends()
    _work(
        run, 4, 2.6, Usage(15_800, 260, 12_300, cost=0.0186), ("completed",) * 2 + ("in-progress",), called("draw", "c4"), 3.4
    )
    run.begins()
    ask = called("ask_person", "c5")
    run.asks(2.0, Usage(18_700, 190, 15_800, cost=0.0173), ask)
    run.add(e.ToolStarted, call=ask).after(0.1)
    run.add(e.QuestionAsked, question=WaitingOnUser("elicitation", "Leave them out?", {"type": "boolean"}, "q1", "c5")).after(
        11.5
    )
    run.add(e.QuestionAnswered, question_id="q1", answer=True)
    run.add(e.ToolFinished, result=ToolResult("c5", "ask_person", (Text("yes"),)), seconds=11.6)
    run.extend(todos_are(*todos_of("completed", "completed", "completed", "in-progress", "not-started")))
    run.ends()
    run.begins()
    run.add(e.CompactionStarted, why="share", messages=9).after(3.8)
    used = Usage(17_900, 640, cost=0.0633)
    run.add(e.ContextCompacted, why="share", compacted=Compacted(1, 10, 9, "So far"), usage=used, seconds=3.8)
    run.asks(2.4, Usage(8_100, 220, cost=0.0276), called("compare", "c6"))
    run.runs(2.0, called("compare", "c6"), todos=todos_of("completed", "completed", "completed", "completed", "in-progress"))
    run.ends()
    _work(run, 7, 2.2, Usage(9_600, 170, 8_100, cost=0.0095), ("completed",) * 5, called("draw", "c7"), 3.1)
    run.begins()
    run.asks(4.6, Usage(11_200, 520, 9_600, cost=0.0155), text="Gentoo are the heaviest.")
    run.ends()
    return run.add(e.RunFinished, status="completed", stop_reason="natural", seconds=run.now).run


def _work(
    run: Timed,
    index: int,
    thinks: float,
    usage: Usage,
    done: tuple[Any, ...],
    call: ToolCall,
    seconds: float,
    *,
    failed: bool = False,
) -> None:
    """A round in which the model marks its todos and calls a tool."""
    assert run.round_count == index
    update = called("todo_operations", f"u{index}")
    run.begins()
    run.asks(thinks, usage, update, call)
    run.runs(0.1, update, todos=todos_of(*done, *["not-started"] * (5 - len(done))))
    run.runs(seconds, call, **({"is_error": True, "error_code": "tool_error"} if failed else {}))
    run.ends()


def load_table(path: str) -> str:
    """Load a table."""
    return f"{path}: 344 rows"


def compare(column: str, by: str) -> str:
    """Compare groups."""
    if by == "weight":
        raise ValueError("there is no column 'weight'")
    return f"{column} by {by}: they differ"


def draw(column: str) -> str:
    """Draw a histogram."""
    return f"drawn: {column}"


PROMPT = """Which species is the heaviest?
- Load it: `load_table('penguins.csv')`
- Compare: `compare('body_mass_g', by='species')`
- And again: `compare('body_mass_g', by='weight')`
- Draw: `draw('body_mass_g')`
- Islands: `compare('body_mass_g', by='island')`"""
PERSONAS = ("forgetful", "chatty", "looping", "planner", "early-stopper", "mixed")


@cache
def simulated() -> tuple[Run, ...]:
    """Runs of all personas with faults: each with a plan that can be done, and with one that cannot."""
    found = []
    for persona in PERSONAS:
        for seed, prompt in enumerate((PROMPT, PROMPT.replace("weight", "sex"))):
            agent = Agent(f"simulated:{persona}?seed={seed}&heed=0.4", tools=[load_table, compare, draw], max_rounds=11)
            found.append(agent.run_sync(prompt))
    return tuple(found)


def figures() -> Iterator[tuple[str, Any]]:
    """The figure of each picture, by the name of its plot."""
    for name in ("timeline", "todos", "tokens", "cost", "tools"):
        yield name, getattr(plots, name)(told())
    for name in ("guidance", "ends"):
        yield name, getattr(plots, name)(simulated())
    yield "outcomes", plots.outcomes(assessed())
    yield "detections", plots.detections(repeating(), ["default", "openhands", "crush", "cline", "smolagents"])
    yield "similarity", plots.similarity(repeating())
    yield "survival", plots.survival(simulated())
    labels = [run.model.startswith("simulated:looping") for run in simulated()]
    yield "sweep", plots.sweep(detect.sweep(simulated(), labels, detect.blocks.RepeatedCall, times=range(2, 7)))
    limits = [None, *[{"max_rounds": most} for most in (10, 8, 6)]]
    yield "survey", plots.survey(survey(simulated(), limits=limits, failed=["loops == 0", "todos_closed"]))
    yield from figures_of_experiments()


def assessed() -> list[Run]:
    """Runs of which some have a reward, some an expectation or a label, and one nothing."""
    rewards = [Assessment(outcome, "trace", "reward", score) for outcome, score in REWARDS]
    expected = [Assessment("passed", "expectation", "loops == 0")] * 3
    found = []
    for number, given in enumerate([*rewards, *expected, None]):
        run = RunBuilder("Cancel the order", run_id=f"r-{number}").round("Done.")
        if given is not None:
            run.add(w.OutcomeGiven, assessment=given)
        found.append(run.add(e.RunFinished, status="completed", stop_reason="natural").run)
    found[0].set_labels([Assessment("passed", "label", "ada")])
    return found


REWARDS: list[tuple[Outcome, float]] = [*[("failed", 0.0)] * 5, *[("passed", 1.0)] * 2, ("unknown", 0.5)]


def repeating() -> Run:
    """A run that works, repeats two calls in turn, edits and tests, and repeats one call."""
    run = RunBuilder()
    for name, text in [(f"read_{number}", str(number) * 40) for number in range(4)]:
        run.round(called(name), text=text)
    for _ in range(4):
        run.round(called("search", query="weight of Gentoo"), text="No results.").round(called("open_page", page=1), text="404")
    for number in range(3):
        run.round(called("edit", line=number), text=f"line {number} changed").round(called("run_tests"), text="1 failed")
    for _ in range(5):
        run.round(called("run_tests"), text="1 failed")
    return run.round("The tests still fail, and I do not know why.").run


def main(folder: Path) -> None:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures():
        made = io.BytesIO()
        figure.savefig(made, format="png", dpi=PIXELS_PER_INCH)
        about = PngInfo()
        about.add_text("Description", repr(figure).encode("ascii", "xmlcharrefreplace").decode())
        path = folder / f"{name}.png"
        small = Image.open(made).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        small.save(path, "PNG", optimize=True, pnginfo=about)
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
