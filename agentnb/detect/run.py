"""`Run`, which users hold: the facts of a run (`agentnb.core.run.facts`), and what they mean.

A live run, one loaded from its log, one read from a foreign trace and one folded from replayed events are judged alike.
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
        "has_grant",
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
"""What policies and the loop read of a run, and a person hardly ever does: left out of `dir`."""

NOT_COMPARED = frozenset({"_last_round", "_views", "_output_type", "_labels", "_threshold"})
"""Parts of its state by which two runs do not differ."""


class _Refused:
    """Refuses a name that a run does not have with what to write instead.

    A descriptor, as a `__getattr__` would slow down all attributes of a run, which are read hundreds of times per round.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __get__(self, run: object, owner: type) -> NoReturn:
        raise AttributeError(f"A Run has no {self._name!r}: {self._instead}")


_STEPS = {kind: (fold, JUDGES.get(kind)) for kind, fold in HANDLERS.items()}


class Run(RunFacts):
    """One run of an agent, up to its latest event: what users hold, and what policies, guides and gates read.

    What those read takes no longer for a longer run. A decision that reads only a run decides alike live, in a resumed run
    and in a replay.
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
        """Detectors that were dropped since `take_failures` was last called, and why."""

    @classmethod
    def from_events(cls, events: Iterable[e.AnyEvent], detectors: Iterable[DetectorMaker] = ()) -> Self:
        """Return the run that these events make, judged; ``detectors`` look for more."""
        run = cls(detectors)
        run.extend(events)
        return run

    def extend(self, events: Iterable[e.AnyEvent]) -> None:
        """Take in these events, one after the other."""
        for event in events:
            self.apply(event)

    @property
    def gives_consent(self) -> bool:
        """Whether the approvals, answers and settings that it holds count as the person's own.

        True while this process writes its log, and if the person's agentnb wrote all of that; False for runs from elsewhere,
        for logs that were changed, and for those of earlier versions, which have no marks.
        """
        if not isinstance(self._consents, bool):
            self._consents = self._consents(self)
        return self._consents

    def set_consent(self, consent: bool | Callable[[Any], bool]) -> None:
        """Set whether it gives consent, or the check that decides on first use. Only readers and writers of logs call this."""
        self._consents = consent

    judged: Judgements = property(  # type: ignore[assignment]
        attrgetter("_judged"), doc="What is judged about its rounds: what policies and guides count. Do not change it."
    )

    last_round_had_tool_results: bool = property(  # type: ignore[assignment]
        attrgetter("_judged.called"), doc="Whether the round before the open one (or the last, between rounds) ran tools."
    )

    @property
    def detected(self) -> View[Finding]:
        """What its detectors found, in order; `findings` are those that its log holds."""
        return View(self._detected)

    @property
    def own_tools(self) -> list[str]:
        """The names of the tools that it was given, without the todo tool and those of extensions and MCP servers."""
        extensions = self.settings.get("extensions", [])
        added = {TODO_TOOL, *[name for extension in extensions for name in extension.get("tools", ())]}
        return without_tools_of_servers(self.settings, [tool.name for tool in self.tools if tool.name not in added])

    @property
    def tool_words(self) -> list[str]:
        """What names its tools again: its own by name, those of MCP servers by word."""
        extensions = self.settings.get("extensions", [])
        added = {name for extension in extensions for name in extension.get("tools", ())}
        servers = [word for server in servers_of_log(self.settings).values() for word in server.words]
        return [*self.own_tools, *[word for word in servers if word not in added]]

    def apply(self, event: e.AnyEvent) -> None:
        """Take in the next event, and judge it. Only the log does this."""
        events = self._events
        if event.seq != len(events):
            raise out_of_order(self, event)
        fold, judge = _STEPS[type(event)]  # both at once, without calls in between: this runs many times per round
        fold(self, event)
        events.append(event)
        if judge is not None:
            judge(self._judged, event, self)
        if self._detectors:
            self._detect(event)

    def _detect(self, event: e.AnyEvent) -> None:
        """Let the detectors take in an event. One that fails is dropped: it may not take the run with it."""
        for detector in self._detectors:
            try:
                new = detector.take(event, self)
                if not new:
                    continue  # as for nearly all events
                new = [*new]
            except Exception as error:
                self._detectors = tuple([kept for kept in self._detectors if kept is not detector])
                self._failed_detectors = (*self._failed_detectors, (detector, error))
                continue
            self._detected = reduce(with_item, new, self._detected)
            self._unlogged = reduce(with_item, new, self._unlogged)

    def detect_with(self, detectors: Iterable[DetectorMaker]) -> None:
        """Let these detectors look at the run from its beginning, and at what is still to come."""
        refolded = Run.from_events(self._events, detectors)
        self._detectors, self._detected = refolded._detectors, refolded._detected
        self._failed_detectors = refolded._failed_detectors
        key = attrgetter("rule", "family", "first", "last")
        logged = {*map(key, self.findings)}
        self._unlogged = tuple([finding for finding in refolded._detected if key(finding) not in logged])

    def take_failures(self) -> Sequence[tuple[Detector, Exception]]:
        """Return the detectors that failed and were dropped; each is returned once."""
        failed, self._failed_detectors = self._failed_detectors, ()
        return failed

    def take_unlogged(self) -> Sequence[Finding]:
        """Return what was found and is not in the log yet; each is returned once."""
        unlogged, self._unlogged = self._unlogged, ()
        return unlogged

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        if self._judged != other._judged:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in RunFacts.__slots__ if name not in NOT_COMPARED)

    __hash__ = None  # it grows

    def __dir__(self) -> list[str]:
        hidden = OF_POLICIES | FORMER_NAMES.keys() | OF_LIVE_RUNS
        return [name for name in super().__dir__() if name not in hidden and not name.startswith("_")]


RunSoFar = Run
"""The run so far, as a policy, a guide or a gate reads it."""

for _name, _better in FORMER_NAMES.items():
    setattr(Run, _name, _Refused(_name, f"it is called {_better} now"))
for _name in OF_LIVE_RUNS:
    _handle = f"in Python keep the handle: live = agent.start(...); live.{_name}(...)"
    setattr(Run, _name, _Refused(_name, _handle))
