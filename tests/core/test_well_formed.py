"""Validation of a log: malformed runs are refused with line and reason."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from run_builder import START, RunBuilder, a_round, answered, begun, called

from agentnb.core.compaction_records import Compacted
from agentnb.core.display_data import Table
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.well_formed import check_events
from agentnb.core.log.wire import decode_log, encode
from agentnb.core.messages import Message, Text, ToolResult
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.todos import Todo
from agentnb.core.usage import Usage
from agentnb.errors import TraceError

Fact = tuple[type[e.Event], dict[str, Any]]
CALL = called("look", "c1")
RESULT = ToolResult("c1", "look", (Text("done"),))
REPLIED: Fact = (e.ModelReplied, {"message": Message("assistant", (CALL,))})
OVER: Fact = (e.RunFinished, {"status": "completed", "stop_reason": "natural"})
ASKED: Fact = (e.QuestionAsked, {"question": WaitingOnUser("approval", "Well?", {}, "q1", "c1")})
ANSWERED: Fact = (e.QuestionAnswered, {"question_id": "q1", "answer": "yes"})
RECOVERED: Fact = (e.RunRecovered, {"schema": e.SCHEMA})
STARTED = answered(CALL)[0]
GUIDED: Fact = (e.GuidanceGiven, {"guidance": Guidance("s", "text", "Go")})
LARGE = 2**63


def deep(levels: int = 400) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def events_of(*facts: Fact, **first: Any) -> list[e.AnyEvent]:
    """Return the unchecked events of these facts after the beginning of a run."""
    result: list[Any] = [RunBuilder(**first).run.events[0]]
    for kind, fields in facts:
        seq = len(result)
        result.append(kind(**{"seq": seq, "at": START + timedelta(seconds=seq), "run_id": "r-1", **fields}))
    return result


def summed_up(first: int, kept: int) -> Fact:
    return e.ContextCompacted, {"why": "share", "compacted": Compacted(first, kept, 1)}


def ended_with(totals: e.Totals) -> Fact:
    return OVER[0], {**OVER[1], "totals": totals}


def warned(**fields: Any) -> Fact:
    return e.Warned, {"message": "x", **fields}


def said_by_model(*parts: Any, role: Any = "assistant", **fields: Any) -> Fact:
    return e.ModelReplied, {"message": Message(role, parts), **fields}


def finished(index: int = 0, status: str = "success") -> Fact:
    return e.RoundFinished, {"index": index, "status": status}


ROUND = a_round(0, CALL)
WRONG: dict[str, tuple[list[Fact], str]] = {
    "a reply before a round": ([REPLIED], "model_replied comes while no round is open"),
    "guidance before a round": ([GUIDED], "no round is open"),
    "an attempt before a round": ([(e.RetryScheduled, {"attempt": 1, "seconds": 1.0, "reason": "x"})], "no round is open"),
    "a compaction before a round": ([(e.CompactionStarted, {"why": "share", "messages": 1})], "no round is open"),
    "a second reply": ([*begun(0), REPLIED, REPLIED], "after the reply of its round"),
    "guidance after the reply": (
        [*begun(0), REPLIED, GUIDED],
        "after the reply",
    ),
    "a part of a reply after it": ([*begun(0), REPLIED, (e.ReplyStreamed, {"parts": ()})], "after the reply of its round"),
    "a result without a call": ([*begun(0), *answered(CALL)[1:]], "refers to the call 'c1', which was never made"),
    "a start without a call": ([*begun(0), STARTED], "tool_started refers to the call 'c1', which was never made"),
    "two results for one call": ([*begun(0), REPLIED, *answered(CALL), *answered(CALL)[1:]], "already has a result"),
    "a start after the result": ([*begun(0), REPLIED, *answered(CALL), STARTED], "already has a result"),
    "two starts": ([*begun(0), REPLIED, STARTED, STARTED], "begins twice"),
    "a block after the start": (
        [*begun(0), REPLIED, STARTED, (e.CallBlocked, {"call": CALL, "result": RESULT, "rule": "x"})],
        "blocked after it began",
    ),
    "the result of another call in a block": (
        [*begun(0), REPLIED, (e.CallBlocked, {"call": CALL, "result": replace(RESULT, call_id="c9"), "rule": "x"})],
        "belongs to another call, 'c9'",
    ),
    "a call without a result": ([*begun(0), REPLIED, finished()], "the call 'c1' has no result at the end of its round"),
    "a call id again": ([*ROUND, *begun(1), REPLIED], "the call id 'c1' is used twice"),
    "a reply of the user": ([*begun(0), said_by_model(role="user")], "has the role user"),
    "a reply with a result": (
        [*begun(0), said_by_model(RESULT)],
        "contains a tool result",
    ),
    "a second beginning": ([(e.RunStarted, {"schema": 5, "prompt": Message("user"), "model": "m"})], "contain it only once"),
    "a gap": ([warned(seq=3)], "Event 3 of run r-1 is out of order: 1 was expected"),
    "another run": ([warned(run_id="r-2")], "belongs to another run, 'r-2'"),
    "another parent": ([warned(parent_id="r-0")], "belongs to another run"),
    "a round too early": (begun(1), "round 1 begins, but round 0 was expected"),
    "a round before the last has ended": ([*begun(0), *begun(1)], "round 1 begins before round 0 has ended"),
    "the end of a round that is not open": ([*begun(0), finished(1)], "round 1 ends while round 0 is open"),
    "the end of no round": ([finished()], "no round is open"),
    "a round that ends as running": ([*begun(0), finished(0, "running")], "cannot end as 'running'"),
    "a round that was running before": (
        [*ROUND, (e.RoundStarted, {"index": 1, "reason": "x", "before": "running"})],
        "running",
    ),
    "an end within a round": ([*begun(0), OVER], "the run ends before round 0 has ended"),
    "an event after the end": ([OVER, warned()], "warned comes after the end"),
    "a second end": ([OVER, OVER], "run_finished comes after the end"),
    "an answer to nothing": ([ANSWERED], "the question 'q1' is not open"),
    "a second answer": ([ASKED, ANSWERED, ANSWERED], "the question 'q1' is not open"),
    "a second question": ([ASKED, ASKED], "asked twice"),
    "an answer after the process died": ([ASKED, RECOVERED, ANSWERED], "not open"),
    "a summary of what is not there": (
        [*begun(0), summed_up(1, 9)],
        "messages that do not exist: 1 to 9 of 1",
    ),
    "a summary turned round": ([*begun(0), summed_up(1, 0)], "1 to 0"),
    "a loop turned round": (
        [(e.LoopDetected, {"rule": "x", "first": 2, "last": 1, "sentence": ""})],
        "names rounds in the wrong order: 2 to 1",
    ),
    "a time that no calendar shows": (
        [warned(at=datetime(9999, 1, 1, tzinfo=UTC))],
        "is out of range",
    ),
    "words of the model as the person's": (
        [(e.CommandReceived, {"command": "say", "message": Message("assistant")})],
        "has the role assistant, not user",
    ),
    "a newer schema": ([(e.RunRecovered, {"schema": e.SCHEMA + 1})], "unknown schema"),
    "deep arguments": (
        [*begun(0), said_by_model(called("look", "c1", x=deep()))],
        "the arguments of look is nested too deep",
    ),
    "deep metadata": ([*begun(0), said_by_model(metadata={"x": deep()})], "too deep"),
    "a deep answer": ([ASKED, (e.QuestionAnswered, {"question_id": "q1", "answer": deep()})], "the answer is nested too deep"),
    "deep inputs": ([(w.StepStarted, {"step": "a", "inputs": deep()})], "inputs is nested too deep"),
    "deep data of an unknown kind": ([(w.OtherEvent, {"name": "x", "data": {"x": deep()}})], "data is nested too deep"),
    "a deep schema": ([(w.ToolsChanged, {"tools": (ToolSpec("look", "", {"x": deep()}),)})], "the schema of look"),
}


def test_malformed_run_is_refused_with_line_and_reason(subtests: pytest.Subtests) -> None:
    for name, (facts, said) in WRONG.items():
        with subtests.test(name):
            events = events_of(*facts)
            check_events(events[:-1], "run.jsonl")  # all but the last are valid
            with pytest.raises(TraceError, match=rf"^run\.jsonl, line {len(events)}: .*{said}"):
                check_events(events, "run.jsonl")


OUT_OF_BOUNDS: dict[str, tuple[list[Fact], str]] = {
    "an invalid end": ([(e.RunFinished, {"status": "running", "stop_reason": "x"})], "'running' - at `$.status`"),
    "totals too large": ([ended_with(e.Totals(LARGE, 1, Usage()))], f"<= {LARGE - 1} - at `$.totals.size`"),
    "totals below nothing": ([ended_with(e.Totals(9, -1, Usage()))], ">= 0 - at `$.totals.rounds`"),
    "dollars below nothing": ([ended_with(e.Totals(9, 1, Usage(), inside=-1.0))], ">= 0.0 - at `$.totals.inside`"),
    "totals of too many tokens": ([ended_with(e.Totals(9, 1, Usage(output=LARGE)))], "at `$.totals.usage.output`"),
    "a summary from before": ([*begun(0), summed_up(-1, 0)], ">= 0 - at `$.compacted.first`"),
    "a finding before the first round": ([(w.FindingMade, {"rule": "x", "family": "f", "first": -1, "last": 1})], "`$.first`"),
    "a time without a zone": ([warned(at=datetime(2026, 1, 1))], "a timezone component - at `$.at`"),
    "too many tokens": ([*begun(0), said_by_model(usage=Usage(LARGE))], "at `$.usage.input`"),
    "negative tokens": ([(w.ModelCalled, {"operation": "x", "usage": Usage(output=-1)})], ">= 0 - at `$.usage.output`"),
    "negative tokens of a nested run": ([(e.ExtraUsage, {"nested": Usage(reasoning=-1)})], "`$.nested.reasoning`"),
    "an attempt before the first": (
        [*begun(0), (e.RetryScheduled, {"attempt": -1, "seconds": 1.0, "reason": "x"})],
        "`$.attempt`",
    ),
    "an invalid status": (
        [*begun(0), (e.RetryScheduled, {"attempt": 1, "seconds": 1.0, "reason": "x", "status": -1})],
        "`$.status`",
    ),
    "an iteration before the first": ([(w.StepStarted, {"step": "a", "iteration": -1})], "`$.iteration`"),
    "attempts below nothing": ([(w.StepFinished, {"step": "a", "attempts": -1})], "`$.attempts`"),
    "a level too high": (
        [*begun(0), (e.GuidanceGiven, {"guidance": Guidance("s", "c", "Go", level=LARGE)})],
        "guidance.level`",
    ),
    "a todo too far": ([(e.TodosChanged, {"todos": (Todo(LARGE, "x"),), "by": "outside"})], "at `$.todos[0].id`"),
    "a todo too far back": ([(e.TodosChanged, {"todos": (Todo(-LARGE, "x"),), "by": "outside"})], "at `$.todos[0].id`"),
    "a table too large": (
        [*begun(0), REPLIED, (e.ToolFinished, {"result": RESULT, "display": Table((), (), LARGE, 0)})],
        "at `$.display.row_count`",
    ),
    "a version before the first": ([(e.RunRecovered, {"schema": 0})], ">= 1 - at `$.schema`"),
    "no run": ([warned(run_id="")], "length >= 1 - at `$.run_id`"),
}


def test_field_out_of_bounds_is_refused_with_line_and_path(subtests: pytest.Subtests) -> None:
    for name, (facts, expected) in OUT_OF_BOUNDS.items():
        with subtests.test(name):
            lines = [encode(event) for event in events_of(*facts)]
            assert len(decode_log(b"".join(lines[:-1]), "run.jsonl")) == len(lines) - 1
            for rest in (b"", lines[-1]):  # the last line too: it is complete
                with pytest.raises(TraceError, match=rf"^run\.jsonl, line {len(lines)}: .*{re.escape(expected)}.*are intact"):
                    decode_log(b"".join([*lines, rest]), "run.jsonl")


def test_run_needs_an_id_a_schema_and_valid_rounds() -> None:
    first = RunBuilder().run.events[0]
    for fields in ({"run_id": ""}, {"schema": 0}, {"forked_from": e.ForkedFrom("r-0", -1)}):
        with pytest.raises(TraceError, match=rf"run\.jsonl, line 1: .*`\$\.{next(iter(fields))}"):
            decode_log(encode(replace(first, **fields)), "run.jsonl")  # type: ignore[arg-type]


FIRST: dict[str, tuple[dict[str, Any], str]] = {
    "a prompt of the model": ({"prompt": Message("assistant")}, "not user"),
    "a prompt that says nothing": ({"prompt": Message("user", (Text(" "),))}, "the prompt is blank"),
    "a policy that is a name": ({"settings": {"policy": "matrix"}}, "settings.policy is not an object"),
    "guidance that is a list": ({"settings": {"guidance": []}}, "settings.guidance is not an object"),
    "deep settings": ({"settings": {"x": deep()}}, "settings is nested too deep"),
    "a summary of what is not there": ({"compacted": Compacted(1, 5, 4)}, "1 to 5 of 1"),
}


def test_invalid_first_event_is_refused(subtests: pytest.Subtests) -> None:
    first = RunBuilder().run.events[0]
    for name, (fields, said) in FIRST.items():
        with subtests.test(name), pytest.raises(TraceError, match=f"line 1: .*{said}"):
            check_events([replace(first, **fields)], "run.jsonl")  # type: ignore[list-item]
    with pytest.raises(TraceError, match="a log must begin with run_started"):
        check_events([e.Warned(seq=0, at=START, run_id="r-1", message="x")], "run.jsonl")


def test_tools_of_each_log_are_checked_independently() -> None:
    sound, too_deep = (ToolSpec("look", "", {"x": deep(levels)}) for levels in (298, 300))
    for tools in ((sound,), (too_deep,), (too_deep,), (sound,), (sound, too_deep)):
        events = [replace(RunBuilder().run.events[0], tools=tools)]
        if too_deep in tools:
            with pytest.raises(TraceError, match="line 1: the schema of look is nested too deep"):
                check_events(events, "run.jsonl")  # type: ignore[arg-type]
        else:
            check_events(events, "run.jsonl")  # type: ignore[arg-type]


RIGHT: dict[str, list[Fact]] = {
    "nothing more": [],
    "a round that was cut off": [*begun(0), REPLIED, STARTED],
    "a whole run": [*ROUND, *a_round(1, "Done."), OVER],
    "times that go backwards or are unknown": [
        warned(at=START - timedelta(days=1)),
        warned(at=None),
    ],
    "a call that another process begins anew": [
        *begun(0),
        REPLIED,
        STARTED,
        RECOVERED,
        *answered(CALL),
        finished(),
    ],
    "a question that another process asks anew": [ASKED, RECOVERED, ASKED, ANSWERED],
    "a question that outlives its process": [ASKED, (e.RunSuspended, {"why": "asked"}), RECOVERED, ANSWERED],
    "a call that waited": [*begun(0), REPLIED, (e.ToolAdmitted, {"call": CALL}), *answered(CALL), finished()],
    "a summary of all but the first": [
        *ROUND,
        *begun(1),
        summed_up(1, 3),
    ],
    "what the person said, summed up": [
        *ROUND,
        (e.CommandReceived, {"command": "say", "text": "And?"}),
        (e.RoundStarted, {"index": 1, "reason": "said", "continuation": "Go on."}),
        summed_up(1, 5),
    ],
    "a kind of a later version": [(w.OtherEvent, {"name": "weather_turned", "data": {"n": 2**70}})],
}


def test_runs_written_by_the_package_are_well_formed(subtests: pytest.Subtests) -> None:
    for name, facts in RIGHT.items():
        with subtests.test(name):
            check_events(events_of(*facts), "run.jsonl")
