"""What policies, guides and gates read of a run: one documented object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentnb.core.guidance import GuidanceTexts
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.work_events import FindingMade, GrantGiven
from agentnb.core.messages import Message
from agentnb.core.questions import AskedQuestion
from agentnb.core.request import ToolSpec
from agentnb.core.run.call_window import CallWindow
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.run.work_records import PlanRecord, StepRecord
from agentnb.core.todos import Todo
from agentnb.core.usage import Usage
from agentnb.detect.judgements import Judgements


class RunSoFar(Protocol):
    """The run so far, as a policy, a guide or a gate reads it: a `Run`, live or folded from any log.

    Nothing here takes longer for a longer run. A decision that reads only this decides alike live, in a resumed run and in a
    replay.
    """

    @property
    def id(self) -> str:
        """The name of the run."""

    @property
    def prompt(self) -> str:
        """The person's prompt."""

    @property
    def settings(self) -> dict[str, Any]:
        """The agent's settings that affect the course of a run."""

    @property
    def context_type(self) -> str:
        """The kind of task that it works on now; empty if none was named."""

    @property
    def contexts(self) -> tuple[str, ...]:
        """The kinds of task that it has worked on, in order."""

    @property
    def entity(self) -> str:
        """Id of the thing that it works on now, such as a project; empty without one."""

    @property
    def first_entity(self) -> str:
        """Id of the thing that it worked on when it began; empty without one."""

    @property
    def max_rounds(self) -> int | None:
        """Maximum number of rounds."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them, with their roles."""

    @property
    def guidance(self) -> Mapping[str, str]:
        """The texts of the guidance set in force by part."""

    @property
    def guidance_in_force(self) -> GuidanceTexts:
        """The guidance set in force: name, version and texts."""

    @property
    def events(self) -> Sequence[AnyEvent]:
        """All events so far."""

    @property
    def plans(self) -> Mapping[str, PlanRecord]:
        """The plans by id, each as it stands."""

    @property
    def step_records(self) -> Mapping[str, StepRecord]:
        """The steps by path, each as it stands."""

    @property
    def messages(self) -> Sequence[Message]:
        """The stored conversation, without ephemeral text."""

    @property
    def pending(self) -> Sequence[Message]:
        """Messages of the person that the model has not been sent yet."""

    @property
    def rounds(self) -> Sequence[WorkflowRound]:
        """All rounds so far, with guidance, reply, calls and results."""

    @property
    def last_round(self) -> WorkflowRound:
        """The newest round, open or finished; IndexError before there is one."""

    @property
    def last_finished_round(self) -> WorkflowRound | None:
        """The round before the open one; between rounds, the last one."""

    @property
    def open_round(self) -> WorkflowRound | None:
        """The round that is running, if any."""

    @property
    def round_number(self) -> int:
        """The number of the open round, counted from 1; between rounds, of the next one."""

    @property
    def last_round_had_tool_results(self) -> bool:
        """Whether the round before the open one (or the last, between rounds) ran tools."""

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The todo list as it was last seen."""

    @property
    def has_unseen_todos(self) -> bool:
        """Whether the list was changed from outside and the model has not been sent it yet."""

    @property
    def calls(self) -> CallWindow:
        """The last tool calls, for finding repeats."""

    @property
    def questions(self) -> Sequence[AskedQuestion]:
        """All questions to the person, oldest first, with their answers."""

    @property
    def grants(self) -> Sequence[GrantGiven]:
        """The grants in force: the calls that are allowed without a question."""

    def has_grant(self, tool: str) -> bool:
        """Return whether a grant allows all calls of this tool."""

    @property
    def findings(self) -> Sequence[FindingMade]:
        """What detectors found so far, as the log has it."""

    @property
    def calls_made(self) -> int:
        """Number of tool calls admitted so far."""

    @property
    def calls_this_turn(self) -> int:
        """Number of tool calls admitted since the person last spoke."""

    @property
    def text(self) -> str:
        """The last text of the model."""

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema that its answer must fit; None for free text."""

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls, those of nested runs included."""

    @property
    def own_usage(self) -> Usage:
        """Tokens and cost of its own model calls, without those of nested runs."""

    @property
    def spent(self) -> float:
        """US dollars for the model calls with a known price, those of nested runs included."""

    @property
    def judged(self) -> Judgements:
        """What is judged about its rounds: counts of reasons, ignored guidance, failing tools, repeats."""
