"""Logs of other versions: earlier ones are read, later ones refused with advice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agentnb import Agent, Run, Store, load_trace, load_traces, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.log.wire import encode
from agentnb.core.run.approvals import RULES
from agentnb.display.card.html import run_html
from agentnb.errors import TraceError
from agentnb.models import ScriptedModel

OLDER = sorted((Path(__file__).parent / "older_logs").glob("*.jsonl"))


def schema_of(path: Path) -> int:
    return int(json.loads(path.read_text(encoding="utf-8").splitlines()[0])["schema"])


def test_sample_log_exists_for_each_earlier_schema() -> None:
    assert {schema_of(path) for path in OLDER} >= set(range(1, e.SCHEMA))


def without_statuses(line: str) -> dict[str, object]:
    """Return an event without inferred fields: before schema 5 statuses followed from the reasons.

    Before schema 9, the word for no mode was the name of a current mode.
    """
    event = json.loads(line)
    added = {"round_started": {"before"}, "run_recovered": {"approve"}}.get(event["kind"], {"last_round"})
    return {name: value for name, value in event.items() if name not in added}


def test_log_of_an_earlier_version_is_read_completely(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for path in OLDER:
        with subtests.test(path.stem):
            run = load_trace(path)
            lines = path.read_text(encoding="utf-8").splitlines()
            assert (run.status, run.stop_reason, len(run.events)) == ("completed", "natural", len(lines))
            assert all(len(round_.results) == len(round_.calls) for round_ in run.rounds) and run.open_round is None
            again = save_trace(run, tmp_path / "again.jsonl").read_text(encoding="utf-8").splitlines()
            assert [without_statuses(line) for line in again] == [without_statuses(line) for line in lines]


def test_log_of_an_earlier_version_is_listed_shown_and_continued(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for path in OLDER:
        with subtests.test(path.stem):
            folder = tmp_path / path.stem
            folder.mkdir()
            (folder / path.name).write_bytes(path.read_bytes())
            run = load_trace(path)
            (line,) = Store(folder).summaries()
            assert (line.status, line.rounds, line.prompt) == (run.status, len(run.rounds), run.prompt)
            rows = {name: len(getattr(tables, name)(run)) for name in tables.NAMES}
            assert rows["runs"] == 1 and rows["rounds"] == len(run.rounds) and rows["messages"] == len(run.messages)
            assert rows["tool_calls"] == sum(len(round_.calls) for round_ in run.rounds)
            assert run.text in re.sub("<[^>]*>", "", run_html(run))
            model = ScriptedModel(["Well then."])
            assert Agent(model).run_sync("And now?", continue_from=run).text == "Well then."
            if run.compacted is None:
                sent = [message.role for message in model.requests[0].messages]
                assert sent[: len(run.messages)] == [message.role for message in run.messages]
            else:
                assert "Grüße 👀" in "".join(message.text for message in model.requests[0].messages[:2])


def named(name: str) -> Run:
    return load_trace(next(path for path in OLDER if path.stem == name))


def test_contents_of_earlier_logs_match_their_runs() -> None:
    first, guided, retried, asked, limited, last, *granted, failing, resumed = (named(path.stem) for path in OLDER)
    assert (first.text, [r.error_code for round_ in first.rounds for r in round_.results]) == (
        "It is 3 👀.",
        [None, "tool_error", "unknown_tool", "invalid_arguments"],
    )
    assert [(todo.title, todo.status) for todo in guided.todos] == [("Add", "completed"), ("Grüße 👀", "completed")]
    assert "auto_continue_todos" in {round_.status for round_ in guided.rounds}
    assert [[retry.status for retry in each.retries] for each in retried.rounds] == [[503], [None]]
    assert retried.cost == pytest.approx(0.01074) and retried.rounds[1].retries[0].heard
    assert [event.answer for event in asked.events if isinstance(event, e.QuestionAnswered)] == ["yes"]
    assert (limited.times_recovered, limited.own_cost, limited.cost) == (1, pytest.approx(0.06), pytest.approx(0.31))
    assert limited.compacted is not None and "Grüße 👀" in limited.compacted.text and limited.settings["budget"] == 2.0
    assert [event.inside for event in last.events if isinstance(event, e.ExtraUsage)] == [0.25]
    assert (last.own_cost, last.spent, last.rounds[1].retries[0].status) == (pytest.approx(0.09), pytest.approx(0.34), 529)
    assert [record.display is not None for record in last.rounds[4].records] == [True] and last.compacted is not None
    assert [event.answer for event in last.events if isinstance(event, e.QuestionAnswered)] == ["yes"]
    assert [todo.status for todo in last.todos] == ["completed", "completed"]
    grants = [[(grant.tool, grant.by, grant.question_id) for grant in run.grants] for run in granted]
    assert grants == [[("write", "program", "q1")], [("weigh", "program", "q1")]]
    assert [result.is_error for result in failing.rounds[0].results] == [False, True]
    assert resumed.times_recovered == 1 and resumed.settings["approve"] == RULES  # "auto" meant no mode


def test_last_round_status_in_an_earlier_log_follows_its_end(subtests: pytest.Subtests, tmp_path: Path) -> None:
    ends = {
        "natural": "natural_completion",
        "workflow_complete": "workflow_complete",
        "complete_with_open_todos": "workflow_complete",
        "loop_detected": "duplicate_loop_broken",
        "refusal": "success",  # nothing else is known of it
    }
    for schema in range(1, 5):
        lines = next(path for path in OLDER if schema_of(path) == schema).read_text(encoding="utf-8").splitlines()
        end = json.loads(lines[-1])
        for stop_reason, status in ends.items():
            with subtests.test(f"schema {schema}, {stop_reason}"):
                path = tmp_path / "r.jsonl"
                path.write_text(
                    "\n".join([*lines[:-1], json.dumps({**end, "stop_reason": stop_reason})]) + "\n", encoding="utf-8"
                )
                assert load_trace(path).rounds[-1].status == status


def test_fields_missing_from_an_earlier_version_are_empty() -> None:
    for path in [path for path in OLDER if schema_of(path) < 5]:
        run = load_trace(path)
        assert (run.kind, run.tags, run.origin, run.forked_from, run.guidance) == ("agent", (), None, None, {})
        assert (run.conversation, run.context_type, run.entity) == (run.id, "", "")


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """Write a log as a later version may: another shape of the first event, unknown kinds."""
    first = {"kind": "run_started", "schema": e.SCHEMA + 1, "run_id": "r-2", "prompt": ["Go"], "mood": "new"}
    rest = {"kind": "weather_turned", "seq": 1, "sky": "clear"}
    path = tmp_path / "r-2.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (first, rest)), encoding="utf-8")
    return path


def test_log_of_a_later_version_is_refused_with_advice(newer: Path) -> None:
    said = (
        f"{newer} was written by a newer agentnb (schema {e.SCHEMA + 1}, this version reads up to {e.SCHEMA}). "
        "Upgrade it: pip install --upgrade agentnb"
    )
    before = newer.read_bytes()
    for load in (lambda: load_trace(newer), lambda: load_traces(newer), lambda: Store(newer.parent).load("r-2")):
        with pytest.raises(TraceError) as caught:
            load()
        assert str(caught.value) == said
    assert newer.read_bytes() == before


def test_log_of_a_later_version_is_omitted_with_a_note(newer: Path) -> None:
    store = Store(newer.parent)
    run = Agent(ScriptedModel(["Done."])).run_sync("Go", store=store)
    for source in (store, newer.parent, str(newer.parent / "*.jsonl")):
        with pytest.warns(UserWarning, match=r"Left out: .*written by a newer agentnb .*pip install --upgrade agentnb"):
            assert load_traces(source) == [run]
    assert [summary.id for summary in store.summaries()] == [run.id]


@pytest.fixture
def gone_on_by_newer(tmp_path: Path) -> Path:
    """Write a log of this version that a later one continued after a crash."""
    begun = Agent(ScriptedModel(["Done."])).run_sync("Go").events[:3]
    taken_up = e.RunRecovered(seq=3, at=begun[-1].at, run_id=begun[0].run_id, schema=e.SCHEMA + 1)
    rest = {"kind": "weather_turned", "seq": 4, "sky": "clear"}
    path = tmp_path / f"{begun[0].run_id}.jsonl"
    path.write_bytes(b"".join(map(encode, [*begun, taken_up])) + json.dumps(rest).encode() + b"\n")
    return path


def test_log_continued_by_a_later_version_is_refused_unchanged(
    gone_on_by_newer: Path,
) -> None:
    path = gone_on_by_newer
    before = path.read_bytes()
    for load in (lambda: load_trace(path), lambda: load_traces(path), lambda: Store(path.parent).load(path.stem)):
        with pytest.raises(TraceError, match=r"written by a newer agentnb \(schema .*pip install --upgrade agentnb"):
            load()
    assert path.read_bytes() == before
