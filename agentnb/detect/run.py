"""`Run`, the class that users hold: the facts of a run (`agentnb.core.run.facts`) and judgements about them.

All runs are judged in the same way: live, loaded from a log, read from a foreign trace, or folded from replayed events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, NoReturn, Self

from agentnb.core.log import events as e
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import HANDLERS, out_of_order
from agentnb.core.todos import TODO_TOOL
from agentnb.core.view import View, with_item
from agentnb.detect.detector import Detector, DetectorMaker, Finding
from agentnb.detect.judgements import JUDGES, Judgements
from agentnb.tools.mcp.logged import servers_of_log, without_tools_of_servers

FORMER_NAMES = {"tallies": "counters", "resting_todos": "carried_todos"}
OF_LIVE_RUNS = frozenset({"stop", "pause", "resume", "say", "answer"})
"""Methods of a `LiveRun`, which are also commands of ``%agent``."""
OF_POLICIES = frozenset(
    {
        "annotate",
        "apply",
        "calls",
        "calls_this_turn",
        "compacted",
        "conversation_todos",
        "counters",
        "detect_with",
        "extend",
        "detected",
        "failed_at",
        "given_guidance",
        "guidance_in_force",
        "has_call_id",
        "has_grants",
        "has_unseen_todos",
        "inherited",
        "is_answered",
        "judged",
        "last_finished_round",
        "last_round",
        "last_round_had_tool_results",
        "mark_interrupted",
        "max_rounds",
        "open_outputs",
        "open_step_call",
        "open_round",
        "pending",
        "place_of_call",
        "plain_output",
        "read_output_as",
        "result_of",
        "role_of",
        "set_consent",
        "set_labels",
        "set_threshold",
        "round_number",
        "carried_todos",
        "opening",
        "own_tools",
        "tool_words",
        "usage_inside",
        "should_continue",
        "streamed_reply",
        "take_failures",
        "take_unlogged",
    }
)
"""Names meant for policies and the loop, rarely needed by people; hidden from `dir`."""

NOT_COMPARED = frozenset({"_last_round", "_views", "_output_type", "_labels", "_threshold"})
"""State that `==` ignores."""


class _Refused:
    """Refuses a former name, stating its replacement.

    Implemented as a descriptor, because `__getattr__` would slow down all attributes of a run, which are read hundreds of times
    per round.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __get__(self, run: object, owner: type) -> NoReturn:
        raise AttributeError(f"A Run has no {self._name!r}: {self._instead}")


_STEPS = {kind: (fold, JUDGES.get(kind)) for kind, fold in HANDLERS.items()}


class Run(RunFacts):
    """A run of an agent, up to its latest event, as read by users, policies, guides and gates.

    Each access takes constant time, whatever the length of the run. A decision based only on the run is the same in a live run,
    a resumed run and a replay.
    """

    __slots__ = ("_consents", "_detected", "_detectors", "_failed_detectors", "_judged", "_unlogged")

    def __init__(self, detectors: Iterable[DetectorMaker] = ()) -> None:
        super().__init__()
        self._consents: bool | Callable[[Any], bool] = False
        self._judged = Judgements()
        self._detectors: tuple[Detector, ...] = tuple([make() for make in detectors])
        self._detected: Sequence[Finding] = ()
        self._unlogged: Sequence[Finding] = ()
        self._failed_detectors: tuple[tuple[Detector, Exception], ...] = ()
        """Detectors dropped since the last call of `take_failures`, with their exceptions."""

    @classmethod
    def from_events(cls, events: Iterable[e.AnyEvent], detectors: Iterable[DetectorMaker] = ()) -> Self:
        """Return the judged run of these events; ``detectors`` look for additional findings."""
        run = cls(detectors)
        run.extend(events)
        return run

    def extend(self, events: Iterable[e.AnyEvent]) -> None:
        """Apply these events in order."""
        for event in events:
            self.apply(event)

    @property
    def gives_consent(self) -> bool:
        """True if the run's approvals, answers and settings count as the person's own.

        True while this process writes the log, and if the person's agentnb wrote all of the log; False for runs from elsewhere,
        for changed logs, and for logs of earlier versions, which lack the mark.
        """
        if not isinstance(self._consents, bool):
            self._consents = self._consents(self)
        return self._consents

    def set_consent(self, consent: bool | Callable[[Any], bool]) -> None:
        """Set the consent, or the check that decides on first use. Only readers and writers of logs call this."""
        self._consents = consent

    judged: Judgements = property(  # type: ignore[assignment]
        attrgetter("_judged"), doc="Judgements about its rounds, which policies and guides count. Do not change them."
    )

    last_round_had_tool_results: bool = property(  # type: ignore[assignment]
        attrgetter("_judged.called"), doc="True if the round before the open one (or the last, between rounds) ran tools."
    )

    @property
    def detected(self) -> View[Finding]:
        """Findings of the run's detectors, in order; `findings` holds those in its log."""
        return View(self._detected)

    @property
    def own_tools(self) -> list[str]:
        """The names of its own tools, excluding the todo tool and those of extensions and MCP servers."""
        extensions = self.settings.get("extensions", [])
        added = {TODO_TOOL, *[name for extension in extensions for name in extension.get("tools", ())]}
        return without_tools_of_servers(self.settings, [tool.name for tool in self.tools if tool.name not in added])

    @property
    def tool_words(self) -> list[str]:
        """The words that select its tools again: its own tools' names, and a word for each MCP server."""
        extensions = self.settings.get("extensions", [])
        added = {name for extension in extensions for name in extension.get("tools", ())}
        servers = [word for server in servers_of_log(self.settings).values() for word in server.words]
        return [*self.own_tools, *[word for word in servers if word not in added]]

    def apply(self, event: e.AnyEvent) -> None:
        """Apply and judge the next event. Only the log calls this."""
        events = self._events
        if event.seq != len(events):
            raise out_of_order(self, event)
        fold, judge = _STEPS[type(event)]  # both in one lookup: this runs many times per round
        fold(self, event)
        events.append(event)
        if judge is not None:
            judge(self._judged, event, self)
        if self._detectors:
            self._detect(event)

    def _detect(self, event: e.AnyEvent) -> None:
        """Pass an event to the detectors. A detector that fails is dropped, so that the run survives."""
        for detector in self._detectors:
            try:
                new = detector.take(event, self)
                if not new:
                    continue  # nearly always
                new = [*new]
            except Exception as error:
                self._detectors = tuple([kept for kept in self._detectors if kept is not detector])
                self._failed_detectors = (*self._failed_detectors, (detector, error))
                continue
            self._detected = reduce(with_item, new, self._detected)
            self._unlogged = reduce(with_item, new, self._unlogged)

    def detect_with(self, detectors: Iterable[DetectorMaker]) -> None:
        """Run these detectors on the events so far, and on those still to come."""
        refolded = Run.from_events(self._events, detectors)
        self._detectors, self._detected = refolded._detectors, refolded._detected
        self._failed_detectors = refolded._failed_detectors
        key = attrgetter("rule", "family", "first", "last")
        logged = {*map(key, self.findings)}
        self._unlogged = tuple([finding for finding in refolded._detected if key(finding) not in logged])

    def take_failures(self) -> Sequence[tuple[Detector, Exception]]:
        """Return the detectors that failed and were dropped. Each is returned only once."""
        failed, self._failed_detectors = self._failed_detectors, ()
        return failed

    def take_unlogged(self) -> Sequence[Finding]:
        """Return the findings that are not in the log yet. Each is returned only once."""
        unlogged, self._unlogged = self._unlogged, ()
        return unlogged

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        if self._judged != other._judged:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in RunFacts.__slots__ if name not in NOT_COMPARED)

    __hash__ = None  # mutable

    def __dir__(self) -> list[str]:
        hidden = OF_POLICIES | FORMER_NAMES.keys() | OF_LIVE_RUNS
        return [name for name in super().__dir__() if name not in hidden and not name.startswith("_")]


RunSoFar = Run
"""The run so far, as policies, guides and gates read it."""

for _name, _better in FORMER_NAMES.items():
    setattr(Run, _name, _Refused(_name, f"it is now called {_better}"))
for _name in OF_LIVE_RUNS:
    _handle = f"in Python keep the handle: live = agent.start(...); live.{_name}(...)"
    setattr(Run, _name, _Refused(_name, _handle))
