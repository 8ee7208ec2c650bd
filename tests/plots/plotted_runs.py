"""Runs in which everything happens that a plot draws, and what a figure shows of them."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text as Words
from msgspec.structs import replace
from run_builder import RunBuilder, answered, begun, blocked_call, called, guidance_of, todos_are, todos_of

from agentnb import Run
from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.questions import WaitingOnUser
from agentnb.core.usage import UNKNOWN, Usage

WINDOW = 20_000
HISTORY = {"share": 0.8, "window": WINDOW}
TIMED = (e.ModelReplied, e.ToolFinished, e.RoundFinished, e.RunFinished, e.ContextCompacted, w.ModelCalled)


class Told(RunBuilder):
    """A run whose events are one second apart, told in steps that take time."""

    def replied(self, *calls: ToolCall, usage: Usage = UNKNOWN) -> None:
        self.add(e.ModelReplied, message=Message("assistant", (Text("Well."), *calls)), usage=usage, seconds=1.0)

    def passes(self, seconds: int) -> None:
        """Time passes."""
        for _ in range(seconds):
            self.add(e.Warned, message="It takes its time")

    def worked(self, index: int, *calls: ToolCall, usage: Usage = UNKNOWN, **how: Any) -> None:
        """A whole round."""
        self.extend(*begun(index))
        self.replied(*calls, usage=usage)
        for call in calls:
            self.extend(*answered(call, **how))
        self.add(e.RoundFinished, index=index, status="success")


def eventful() -> Run:
    """Six rounds with a side call, a failed tool, a retry, a question, a pause, a message, a compaction, a block and a loop."""
    told = Told(
        model="anthropic:m", run_id="20260101-ab12cd34", settings={"history": HISTORY}, todos=todos_of(*["not-started"] * 3)
    )
    told.add(w.ModelCalled, operation="planner", usage=Usage(900, 200, cost=0.004), seconds=1.0)  # at 1 s
    first = todos_of("completed", "in-progress", "not-started")
    told.worked(0, called("look", "c0"), usage=Usage(4_000, 300, cost=0.01), todos=first)  # 2 to 7 s
    failed = {"is_error": True, "error_code": "tool_error"}
    told.worked(1, called("fail", "c1"), usage=Usage(7_000, 200, 3_000, cost=0.01), **failed)  # 8 to 12 s
    told.extend(*begun(2)).add(e.RetryScheduled, attempt=1, seconds=3.0, reason="busy", status=529)  # at 13 and 14 s
    told.passes(4)
    told.replied(called("ask_person", "c2"), usage=Usage(9_000, 100, 7_000, cost=0.01))  # at 19 s
    told.add(e.ToolStarted, call=called("ask_person", "c2"))
    told.add(e.QuestionAsked, question=WaitingOnUser("elicitation", "?", {"type": "string"}, "q1", "c2"))  # at 21 s
    told.passes(5)
    told.add(e.QuestionAnswered, question_id="q1", answer="yes")  # at 27 s
    told.add(e.ToolFinished, result=ToolResult("c2", "ask_person", (Text("yes"),)))
    told.add(e.RoundFinished, index=2, status="success")
    told.add(e.CommandReceived, command="pause").passes(2)  # at 30 s
    told.add(e.CommandReceived, command="resume").add(e.CommandReceived, command="say", text="Faster")  # at 33 and 34 s
    told.worked(3, called("look", "c3"), called("look", "c4"))  # 35 to 41 s
    told.extend(*begun(4)).add(e.CompactionStarted, why="share", messages=8)  # at 42 and 43 s
    used = Usage(15_000, 600, cost=0.05)
    told.add(e.ContextCompacted, why="share", compacted=Compacted(1, 6, 5, "So far"), usage=used, seconds=1.0)
    told.replied(called("look", "c5"), usage=Usage(5_000, 400, 1_000, cost=0.01))  # at 45 s
    told.extend(*blocked_call(called("look", "c5"))).add(e.RoundFinished, index=4, status="success")
    told.extend(todos_are(*todos_of("completed", "completed", "completed")))
    told.add(e.LoopDetected, rule="consecutive", first=3, last=4, sentence="It repeats")
    told.worked(5, usage=Usage(6_000, 500))
    return told.add(e.RunFinished, status="completed", stop_reason="natural").run


def without_times(run: Run) -> Run:
    """The same run, as a trace without any time."""
    return Run.from_events(
        [replace(event, at=None, **({"seconds": None} if isinstance(event, TIMED) else {})) for event in run.events]
    )


def guided(run_id: str = "r-1") -> Run:
    """Guidance of three cells and two levels, of which some was followed, some ignored and some not judged."""
    told = RunBuilder(run_id=run_id)
    ask, again = guidance_of("tools", asks=("called",)), guidance_of("intervention", level=2, asks=("called",))
    told.round(called("look"), guidance=[ask]).round(called("look"), guidance=[ask]).round("No.", guidance=[ask, again])
    told.round(called("look"), guidance=[again, guidance_of("todo_list", "1. One")])
    return told.add(e.RunFinished, status="completed", stop_reason="natural").run


def words(figure: Figure) -> list[str]:
    """All texts of the figure, line by line."""
    shown = [found.get_text() for found in figure.findobj(Words) if found.get_visible()]
    return [line for text in shown for line in text.splitlines() if line]


def widths(figure: Figure, label: str, panel: int = 0) -> list[float]:
    """The widths of the horizontal bars with this label, from the top."""
    bars = [bar for found in figure.axes[panel].containers if found.get_label() == label for bar in found]
    return [bar.get_width() for bar in sorted(bars, key=lambda bar: bar.get_y())]


def names(figure: Figure) -> list[str]:
    """The names of the bars or lanes."""
    return [found.get_text() for found in figure.axes[0].get_yticklabels()]
