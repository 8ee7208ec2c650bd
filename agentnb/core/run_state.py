"""The state of a run, which only the fold may change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from agentnb.core import events as e
from agentnb.core.call_window import CallWindow
from agentnb.core.compaction import Compacted
from agentnb.core.counters import Counters
from agentnb.core.messages import Message, ToolResult
from agentnb.core.questions import AskedQuestion
from agentnb.core.request import ToolRole, ToolSpec, role_of
from agentnb.core.rounds import WorkflowRound
from agentnb.core.todos import Todo
from agentnb.core.usage import NestedTotals, NestedUsage, Usage
from agentnb.core.view import View
from agentnb.core.work_state import WorkState


@dataclass(slots=True)
class Views:
    """Read-only views of a run's lists, made once because the loop uses them all the time."""

    events: View[e.AnyEvent]
    messages: View[Message]
    pending: View[Message]
    rounds: View[WorkflowRound]


class RunState:
    """All state of a run; `Run` is its read-only interface."""

    __slots__ = (
        "_agent",
        "_call_places",
        "_calls",
        "_carried_todos",
        "_compacted",
        "_continued_from",
        "_counters",
        "_ended_at",
        "_error",
        "_events",
        "_id",
        "_inherited",
        "_inner_places",
        "_limit",
        "_loops",
        "_messages",
        "_model",
        "_nested",
        "_opening",
        "_parent_id",
        "_paused",
        "_pending",
        "_prompt",
        "_questions",
        "_recovered",
        "_results",
        "_roles",
        "_rounds",
        "_seconds",
        "_settings",
        "_started_at",
        "_status",
        "_stop_reason",
        "_suspended",
        "_system",
        "_text",
        "_todos",
        "_todos_done",
        "_todos_unseen",
        "_tools",
        "_usage",
        "_views",
        "_waiting",
        "_warned",
        "_work",
    )

    def __init__(self) -> None:
        self._opening: e.RunStarted | None = None
        self._id = ""
        self._parent_id: str | None = None
        self._agent = self._model = self._system = self._prompt = ""
        self._tools: tuple[ToolSpec, ...] = ()
        self._roles: dict[str, ToolRole] = {}
        """What each tool is for."""
        self._work = WorkState()
        self._settings: dict[str, Any] = {}
        self._continued_from: str | None = None
        self._inherited = 0
        self._events: list[e.AnyEvent] = []
        self._messages: list[Message] = []
        self._pending: list[Message] = []
        self._rounds: list[WorkflowRound] = []
        self._views = Views(View(self._events), View(self._messages), View(self._pending), View(self._rounds))
        self._call_places: dict[str, int] = {}
        self._inner_places: dict[str, tuple[int, ...]] = {}
        """Where the record of each call of the last reply, and of each inner call, is, by the call's id."""
        self._results: dict[str, ToolResult | None] = {}
        """The result of each call of the conversation; None while there is none."""
        self._compacted: Compacted | None = None
        self._recovered = False  # whether another process has resumed the run and has not begun a round yet
        self._todos: tuple[Todo, ...] = ()
        self._carried_todos: tuple[Todo, ...] = ()
        self._todos_done: set[tuple[int, str]] = set()
        self._todos_unseen = False
        self._counters = Counters()
        self._calls = CallWindow()
        self._loops: list[e.LoopDetected] = []
        self._usage: Usage | None = None  # of its own model calls
        self._nested = NestedTotals()
        self._status: e.Status = "running"
        self._paused = self._suspended = False
        self._waiting: dict[str, int] = {}  # the places of the open questions in `_questions`, by id, oldest first
        self._questions: list[AskedQuestion] = []
        self._stop_reason: str | None = None
        self._error: e.RunError | None = None
        self._limit: e.LimitReached | None = None
        self._warned: list[e.Warned] = []
        self._text = ""
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._seconds: float | None = 0.0

    def _use(self, usage: Usage) -> None:
        """Add the usage of a model call, unless a foreign trace reports that of the whole run."""
        origin = None if self._opening is None else self._opening.origin
        if origin is not None and origin.usage is not None:
            return
        self._usage = usage if self._usage is None else self._usage + usage
        self._counters.spent += usage.cost or 0.0

    def _use_inside(self, run_id: str, nested: NestedUsage) -> None:
        """Add the usage of a nested run."""
        self._nested.add(run_id, nested)
        self._counters.spent_inside += nested.spent

    def role_of(self, name: str) -> ToolRole:
        """Return what the tool of this name is for."""
        return self._roles.get(name) or role_of(name)

    def annotate(self, **changes: Any) -> None:
        """Note what is judged about the last round; its facts only the fold changes."""
        self._rounds[-1] = replace(self._rounds[-1], **changes)
