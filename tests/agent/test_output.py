"""Typed answers: `Agent(output=T)` validates them, `run.output` returns them."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from marked_logs import own_run
from run_checks import checked, reasons, round_statuses
from scripted_runs import add, reply

from agentnb import Agent, Matrix, Minimal, Output, Run, Store, ToolCall, load_trace
from agentnb.agent.from_log import agent_of
from agentnb.core.messages import Text
from agentnb.errors import SettingsError
from agentnb.guidance import GuidanceSet
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.policies import Policy, PolicyBundle, natural_stop


@dataclass
class Place:
    name: str
    depth: float | None = None


@dataclass
class Ship:
    flag: str


@dataclass
class Trip:
    on: datetime.date
    kind: Literal["ferry", "tug"]
    stops: list[Place]
    before: Trip | None = None


@dataclass
class Cargo:
    what: Place | Ship


class Note(TypedDict):
    at: datetime.datetime
    words: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Sailed(msgspec.Struct, tag=True):
    at: datetime.datetime


class Pair(NamedTuple):
    first: datetime.time
    last: datetime.time


@dataclass
class Log:
    seen: list[datetime.datetime]
    later: Log | None
    either: Sailed | Dog | datetime.date
    both: Pair
    one: Sailed | None = None
    day: datetime.datetime | int | None = None


class Count(pydantic.BaseModel):
    birds: int
    on: datetime.date

    @pydantic.field_validator("birds")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("birds come in pairs")
        return value


class Leaving(pydantic.BaseModel):
    """A type whose validator exits the program, as code written for a script may."""

    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _leaves(cls, value: int) -> int:
        if value % 2:
            raise SystemExit("no odd numbers")
        return value


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("it must be even")


SCHEMA = {"type": "object", "properties": {"birds": {"type": "integer"}}, "required": ["birds"], "additionalProperties": False}
FITS = '{"birds": 12}'
ADD = ToolCall("add", {"a": 1, "b": 2})
OPEN = ToolCall("todo_operations", {"operation": "add", "newTodos": [{"title": "One"}]})


def ran(*replies: Line, output: Any = SCHEMA, **settings: Any) -> Run:
    """Run this script, which must be used up."""
    model = ScriptedModel(replies)
    run = Agent(model, output=output, **settings).run_sync("go")
    assert len(model.requests) == len(replies), run
    return checked(run)


def test_answer_becomes_an_instance_of_the_type(subtests: pytest.Subtests) -> None:
    day = datetime.date(2026, 1, 4)
    for output, text, value in (
        (
            Trip,
            '{"on": "2026-01-04", "kind": "tug", "stops": [{"name": "Vigo"}], '
            '"before": {"on": "2026-01-04", "kind": "ferry", "stops": []}}',
            Trip(day, "tug", [Place("Vigo")], Trip(day, "ferry", [])),
        ),
        (Cargo, '{"what": {"flag": "blue"}}', Cargo(Ship("blue"))),
        (Note, '{"at": "2026-01-04T10:00:00", "words": "x"}', {"at": datetime.datetime(2026, 1, 4, 10), "words": "x"}),
        (Cat | Dog, '{"type": "Dog", "tricks": ["sit"]}', Dog(["sit"])),
        (Count, '{"birds": 2, "on": "2026-01-04"}', Count(birds=2, on=day)),
        (list[Count], '[{"birds": 2, "on": "2026-01-04"}]', [Count(birds=2, on=day)]),
        (list[Place], '[{"name": "Vigo", "depth": 3}]', [Place("Vigo", 3.0)]),
        (dict[datetime.date, int], '{"2026-01-04": 3}', {day: 3}),
        (int, "12", 12),
        (SCHEMA, FITS, {"birds": 12}),
        (Output(SCHEMA, retries=0), FITS, {"birds": 12}),
    ):
        with subtests.test(str(output)):
            run = ran(text, output=output)
            assert (run.status, run.output, type(run.output)) == ("completed", value, type(value))
            plain = Run.from_events(run.events).output
            assert plain == msgspec.json.decode(text)


def test_invalid_answer_is_sent_back_with_its_problems(subtests: pytest.Subtests) -> None:
    for output, text, says, good in (
        (SCHEMA, "Twelve.", "not pure JSON", FITS),
        (SCHEMA, '{"birds": "12"}', 'birds: "12" is not of type "integer"', FITS),
        (Trip, '{"on": "today", "kind": "tug", "stops": []}', 'on: "today" is not a date such as 2026-07-28', None),
        (Trip, '{"on": "2026-01-04", "kind": "raft", "stops": []}', '"raft" is not one of "ferry", "tug"', None),
        (Count, '{"birds": 3, "on": "2026-01-04"}', "birds: Value error, birds come in pairs", None),
        (Even, '{"number": 3}', "it must be even", '{"number": 2}'),
        (Leaving, '{"number": 3}', "no odd numbers", '{"number": 2}'),
    ):
        with subtests.test(text):
            good = good or text.replace("today", "2026-01-04").replace("raft", "tug").replace("3,", "2,")
            for policy in (Matrix(), Minimal()):
                run = ran(text, good, output=output, policy=policy)
                assert reasons(run) == ["prompt", "invalid_output"] and run.output is not None
                assert round_statuses(run) == ["invalid_output", "natural_completion"]
                assert says in run.messages[2].text


def test_output_retry_carries_no_contradicting_guidance() -> None:
    model = ScriptedModel(["Twelve.", [ADD], FITS])
    run = Agent(model, tools=[add], todos=False, output=SCHEMA).run_sync("go")
    assert [[guidance.cell for guidance in round.guidance] for round in run.rounds] == [[], [], ["tools"]]


def test_answer_that_stays_invalid_fails_with_the_last_problems(subtests: pytest.Subtests) -> None:
    for output, count in ((SCHEMA, 3), (Output(SCHEMA, retries=0), 1), (Output(SCHEMA, retries=4), 5)):
        with subtests.test(count):
            run = ran(*[f'{{"birds": "{number}"}}' for number in range(count)], output=output)
            assert (run.status, run.stop_reason, run.output) == ("failed", "invalid_output", None)
            assert run.error is not None and f'birds: "{count - 1}" is not of type "integer"' in run.error.message
            assert run.text == f'{{"birds": "{count - 1}"}}'


def test_repeated_invalid_answer_fails_and_is_not_a_loop() -> None:
    run = ran(*["I would rather tell you about the weather in Vigo."] * 2, policy=Matrix(repeats=1))
    assert (run.status, run.stop_reason) == ("failed", "invalid_output") and "not pure JSON" in str(run.error)
    assert [loop.rule for loop in run.loops] == ["already_said"]
    run = ran(*["I would rather tell you about the weather in Vigo."] * 4, output=Output(SCHEMA, retries=9))
    assert run.status == "failed" and "not pure JSON" in str(run.error)


def test_calls_between_invalid_answers_do_not_reset_retries() -> None:
    run = ran("One.", [ADD], "Two.", [ToolCall("add", {"a": 3, "b": 4})], "Three.", tools=[add], todos=False)
    assert (run.status, run.stop_reason) == ("failed", "invalid_output")
    assert reasons(run) == ["prompt", "invalid_output", "tool_results", "invalid_output", "tool_results"]


def test_user_message_resets_output_retries() -> None:
    started = threading.Event()

    def speak(_: Any) -> str:
        assert started.wait(30)
        live.say("Try again.")
        return "Three."

    live = Agent(ScriptedModel(["One.", "Two.", speak, "Four.", FITS]), output=SCHEMA).start("go")
    started.set()
    run = live.result(30)
    assert (run.status, run.output) == ("completed", {"birds": 12})
    assert reasons(run) == ["prompt", "invalid_output", "invalid_output", "said", "invalid_output"]


def test_empty_truncated_or_refused_replies_are_handled_as_usual() -> None:
    assert reasons(ran(reply(), FITS)) == ["prompt", "empty_answer"]
    assert ran(reply(), reply()).error.message.startswith("The model gave two empty")  # type: ignore[union-attr]
    run = ran(reply(Text("No."), stop_reason="refusal"))
    assert (run.status, run.stop_reason, run.output) == ("stopped", "refusal", None)
    run = ran(reply(Text('{"birds"'), stop_reason="max_tokens"), reply(Text(": 12}")))
    assert (run.status, run.output) == ("completed", {"birds": 12})
    assert Run.from_events(run.events).output == {"birds": 12}


def test_open_todos_bring_a_reminder_before_output_validation() -> None:
    close = ToolCall("todo_operations", {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]})
    begin = ToolCall("todo_operations", {"operation": "update", "todoUpdates": [{"id": 1, "status": "in-progress"}]})
    run = ran([OPEN], "Words.", [begin, close], "Words again.", FITS, tools=[add])
    assert reasons(run) == ["prompt", "tool_results", "open_todos", "tool_results", "invalid_output"]
    assert run.output == {"birds": 12}


def test_structured_answer_may_look_like_a_marker_or_call(subtests: pytest.Subtests) -> None:
    shape = {"type": "object", "properties": {"status": {"enum": ["stop", "complete"]}}, "required": ["status"]}
    for status in ("stop", "complete"):
        with subtests.test(status):
            assert ran(f'{{"status": "{status}"}}', output=shape).output == {"status": status}
    run = ran('[\n{"status": "stop"}\n]', output={"type": "array", "items": shape})
    assert run.output == [{"status": "stop"}]
    run = ran('{"name": "add", "arguments": {"a": 1, "b": 2}}', output={"type": "object"}, tools=[add])
    assert (run.status, len(run.rounds), list(run.warnings)) == ("completed", 1, [])


def test_final_answer_in_workflow_mode_must_be_valid() -> None:
    complete = "\n[WORKFLOW_COMPLETE]"
    run = ran(f"{FITS}", f"Done.{complete}", f"{FITS}{complete}", policy=Matrix(workflow_mode=True), tools=[add])
    assert reasons(run) == ["prompt", "workflow_mode", "invalid_output"]
    assert (run.stop_reason, run.output) == ("workflow_complete", {"birds": 12})
    run = ran([Text(f"Done.{complete}"), ADD], f"{FITS}{complete}", policy=Matrix(workflow_mode=True), tools=[add])
    assert run.output == {"birds": 12}


def test_custom_policy_also_enforces_the_output_type() -> None:
    class Own:
        name: ClassVar[str] = "own"

        def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
            return PolicyBundle((natural_stop, *limits))

    assert reasons(ran("Twelve.", FITS, policy=Own())) == ["prompt", "invalid_output"]


def test_limits_precede_output_retries_and_allow_a_final_answer() -> None:
    run = ran("Twelve.", max_rounds=1)
    assert (run.status, run.output) == ("limited", None)
    run = ran("Twelve.", FITS, max_rounds=1, on_limit="final_answer")
    assert (run.status, run.output) == ("limited", {"birds": 12})
    for unfit in (Even, Leaving):
        run = ran("Twelve.", '{"number": 3}', output=unfit, max_rounds=1, on_limit="final_answer")
        assert (run.status, run.output) == ("limited", None)


def test_output_schema_is_sent_to_the_model() -> None:
    model = ScriptedModel([FITS])
    Agent(model, output=SCHEMA, system="Be brief.").run_sync("go")
    assert model.requests[0].system.startswith("Be brief.") and '"required":["birds"]' in model.requests[0].system
    assert model.requests[0].settings["output_schema"] == SCHEMA
    assert "JSON Schema" not in Agent(model).first_request("go").system


@pytest.mark.parametrize("output", [Trip, Cargo, Note, Cat | Dog, Even, list[Place], SCHEMA, int])
def test_simulated_model_answers_according_to_the_schema(output: Any) -> None:
    run = Agent("simulated:disciplined", tools=[add], output=output).run_sync("- First `add(1, 2)`")
    assert run.status == "completed" and run.output is not None


def test_simulated_model_answers_with_a_valid_result() -> None:
    def count(place: str) -> dict[str, int]:
        """Count birds."""
        return {"birds": len(place)}

    assert Agent("simulated:disciplined", tools=[count], output=SCHEMA).run_sync('- First `count("Vigo")`').output == {
        "birds": 4
    }


def test_run_from_log_keeps_its_schema_and_can_be_continued(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = Agent("simulated:disciplined", output=Output(Trip, retries=7)).run_sync("go", store=store)
    loaded = load_trace(next(tmp_path.glob("*.jsonl")))
    assert loaded == run and isinstance(run.output, Trip) and isinstance(loaded.output, dict)
    again = agent_of(loaded)
    assert again.settings["output"] == run.settings["output"] == {"schema": Output(Trip).schema, "retries": 7}
    assert again.run_sync("go").output == loaded.output


def test_interrupted_run_keeps_its_output_type_in_another_process() -> None:
    run = ran("Twelve.", FITS)
    cut = own_run(run.events[: [type(event).__name__ for event in run.events].index("RoundFinished") + 1])
    finished = agent_of(cut, model=ScriptedModel(["Still twelve.", FITS])).resume(cut).result(30)
    assert reasons(finished) == ["prompt", "invalid_output", "invalid_output"] and finished.output == {"birds": 12}
    cut = own_run(run.events[: [type(event).__name__ for event in run.events].index("RoundFinished") + 1])
    resumed = Agent(ScriptedModel(['{"number": 2}']), output=Even).resume(cut).result(30)
    assert resumed.output is None, "the log holds it to the schema that it began with"


def test_date_and_time_formats_are_described_at_every_depth(subtests: pytest.Subtests) -> None:
    moment, day = datetime.datetime, datetime.date
    for kind, count in (
        (Note, 1),
        (moment, 1),
        (list[moment | None], 1),
        (dict[str, tuple[moment, datetime.time, day]], 3),
        (Log, 9),  # its three fields appear twice: at the root, and for `later`
        (Sailed | Dog, 1),
        (Sailed | Dog | datetime.time | None, 2),
        (Annotated[moment, msgspec.Meta(description="When")], 1),
    ):
        with subtests.test(str(kind)):
            assert msgspec.json.encode(Output(kind).schema).decode().count('"format":') == count


def test_invalid_output_type_is_refused(subtests: pytest.Subtests) -> None:
    for output in ("Trip", 5, object(), Place("Vigo"), lambda: 1, {"type": "nope"}, {"$ref": "#/$defs/gone"}, Store):
        with subtests.test(str(output)), pytest.raises(SettingsError, match="output"):
            Agent(ScriptedModel([]), output=output)
    for retries in (-1, True, 1.5, 1_000):
        with subtests.test(retries), pytest.raises(SettingsError, match="retries"):
            Output(int, retries=retries)  # type: ignore[arg-type]


def test_output_schema_contains_the_format_of_times(subtests: pytest.Subtests) -> None:
    for kind, form, refused in (
        (datetime.time, "time", "2026-01-04T10:00:00"),
        (datetime.datetime, "date-time", "10:00:00"),
        (datetime.date, "date", "10:00:00"),
    ):
        with subtests.test(form):
            output = Output(list[kind])  # type: ignore[valid-type]  # each is a type
            assert output.schema["items"]["format"] == form
            run = ran(f'["{refused}"]', f'["{refused}"]', output=Output(list[kind], retries=1))  # type: ignore[valid-type]
            assert run.stop_reason == "invalid_output"
