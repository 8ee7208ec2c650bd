"""Conversations of OpenHands 1: lists of events, records of benchmarks, downloads, and folders of event files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, results, said

from agentnb import load_trace, load_traces
from agentnb.context.request_history import sent_request
from agentnb.core.messages import Thinking
from agentnb.errors import TraceError

EVENTS = "openhands_v1/events.json"


def event_files(folder: Path, events: list[dict[str, Any]], **state: Any) -> Path:
    """Return a conversation as the program stores it, with metadata beside the events."""
    (folder / "events").mkdir(parents=True)
    (folder / "base_state.json").write_text(json.dumps(state))
    for number, event in enumerate(events):
        (folder / "events" / f"event-{number:05}-{event['id']}.json").write_text(json.dumps(event))
    return folder


def written(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text(json.dumps(list(events)))
    return path


def test_actions_of_one_response_form_one_reply() -> None:
    run, events = load_trace(FILES / EVENTS), loaded(EVENTS)
    responses = {event["llm_response_id"] for event in events if event["kind"] == "ActionEvent"}
    assert len(run.rounds) == len(responses)
    assert [call.id for call in calls(run)] == [
        event["tool_call_id"] for event in events if event["kind"] == "ActionEvent" and event["tool_name"] != "finish"
    ]
    assert results(run) == [
        ("make: *** No rule to make target 'all'.", "exit_2"),
        ("build:\n\tcc main.c", None),
        ("Do not delete it", "rejected"),
        ("Tool 'terminl' not found.", "tool_error"),
        ("ok", None),
    ]
    assert (run.text, run.status, run.stop_reason) == ("Done.\n\nThe target is called build, not all.", "completed", "natural")
    assert (run.system, run.prompt) == ("You are OpenHands agent.", "Why does the build fail?")
    assert said(run)[1] == ("user", "OpenHands", "<EXTRA_INFO>make builds it.</EXTRA_INFO>")
    assert [tool.name for tool in run.tools] == ["terminal", "finish", "terminl"]
    assert next(message for message in run.messages if message.role == "assistant").parts[0] == Thinking("First see the error.")
    assert run.started_at is not None and run.started_at.minute == 50


def test_condensation_replaces_forgotten_events_in_later_requests() -> None:
    run = load_trace(FILES / EVENTS)
    before, after = sent_request(run, 2), sent_request(run, 3)
    assert before.compacted is None and after.compacted is not None
    texts = [message.text for message in after.request.messages]
    assert any("make has no target all" in text for text in texts) and "Why does the build fail?" in texts[0]
    asked = [call.id for message in after.request.messages for call in message.calls]
    assert asked == ["toolu_04"]  # those before it are forgotten


def test_benchmark_record_has_usage_per_response_and_its_task() -> None:
    runs = load_traces(FILES / "openhands_v1/output.jsonl")
    record = json.loads((FILES / "openhands_v1/output.jsonl").read_text().splitlines()[0])
    usage = record["metrics"]["token_usages"]
    assert runs[0].usage.input == sum(one["prompt_tokens"] for one in usage)
    assert runs[0].rounds[1].usage is not None and runs[0].rounds[1].usage.output == 52
    assert [run.origin.task for run in runs if run.origin] == ["example__make-1", "example__make-2"]
    assert recorded(runs[0])["test_result"] == record["test_result"] and runs[0].model == "anthropic/claude-x"
    assert (runs[1].status, runs[1].stop_reason) == ("failed", "error")


def test_event_folder_and_event_download_are_one_run_each(tmp_path: Path) -> None:
    events = loaded(EVENTS)
    folder = event_files(tmp_path / "a", events, id="a-1", agent={"llm": {"model": "m-1"}})
    (run,) = load_traces(folder)
    assert (run.model, run.id, len(run.rounds), calls(run)) == ("m-1", "a-1", 5, calls(load_trace(FILES / EVENTS)))
    assert load_trace(folder / "events" / "event-00000-e0.json").id == "a-1"
    with pytest.raises(TraceError, match="contains no runs"):
        load_trace(folder / "events" / "event-00001-e1.json")
    (downloaded,) = load_traces(FILES / "openhands_v1/conversation.zip")
    assert (downloaded.model, downloaded.id) == ("anthropic/claude-x", "3f0346d2bcd34f06b220829a96fff1c2")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        for name in ("x/events/event-00010-b.json", "x/events/event-00002-a.json", "y/events/event-00000-c.json"):
            archive.writestr(name, json.dumps({**events[1], "llm_message": {"role": "user", "content": name}}))
    runs = load_traces(tmp_path / "two.zip")
    assert [run.prompt for run in runs] == ["x/events/event-00002-a.json", "y/events/event-00000-c.json"]


def test_run_status_follows_from_the_last_state_or_error(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def state(value: str) -> dict[str, Any]:
        return {
            "id": "s",
            "source": "environment",
            "kind": "ConversationStateUpdateEvent",
            "key": "execution_status",
            "value": value,
        }

    def error(code: str) -> dict[str, Any]:
        return {"id": "x", "source": "environment", "kind": "ConversationErrorEvent", "code": code, "detail": "It is so."}

    cases: dict[str, tuple[list[dict[str, Any]], tuple[str, str | None]]] = {
        "stuck": ([state("running"), state("stuck")], ("stopped", "loop_detected")),
        "error": ([state("error"), error("LLMError")], ("failed", "error")),
        "limit": ([error("MaxIterationsReached")], ("limited", "max_rounds")),
        "stopped": ([{"id": "i", "source": "user", "kind": "InterruptEvent"}], ("cancelled", "cancelled")),
        "broken off": ([state("running")], ("interrupted", "interrupted")),
    }
    asked = loaded(EVENTS)[1]
    action = loaded(EVENTS)[3]
    for name, (more, ended) in cases.items():
        with subtests.test(name):
            run = load_trace(written(tmp_path / f"{name}.json", asked, action, *more))
            assert (run.status, run.stop_reason) == ended


def test_damaged_event_is_reported_as_a_problem(tmp_path: Path) -> None:
    events = loaded(EVENTS)
    path = written(tmp_path / "t.json", *events[:3], {"id": "x", "kind": "MessageEvent", "source": "user"}, *events[3:])
    assert [problem.position for problem in load_traces(path, strict=False).problems] == ["event 3"]


def test_folder_of_event_files_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []
    plain = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: (listed.append(path), plain(path))[1])
    counts = []
    for count in (10, 40):
        events = [{**loaded(EVENTS)[1], "id": f"e{number}"} for number in range(count)]
        folder = event_files(tmp_path / str(count), events)
        listed.clear()
        assert len(load_traces(folder)) == 1
        counts.append(len([path for path in listed if path.name == "events"]))
    assert counts[0] == counts[1] < 5


def test_folder_is_recognized_by_whichever_event_file_comes_first(tmp_path: Path) -> None:
    events = loaded(EVENTS)
    folder = event_files(tmp_path, events[2:])
    assert len(load_traces(folder)) == 1
    (folder / "events" / "event-00000-e2.json").rename(folder / "events" / "event-00009-e2.json")
    (folder / "events" / "event-00000-new.json").write_text(json.dumps(events[1]))
    (run,) = load_traces(folder)
    assert run.prompt == "Why does the build fail?"


def test_unreadable_event_file_is_reported_and_others_are_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def dangle(path: Path) -> None:
        path.unlink()
        path.symlink_to("gone")

    def circle(path: Path) -> None:
        path.unlink()
        path.symlink_to(path.name)

    damages: dict[str, Callable[[Path], object]] = {
        "dangling link": dangle,
        "link in a circle": circle,
        "damaged": lambda path: path.write_text("{"),
    }
    for name, damage in damages.items():
        for place in (0, 4):
            with subtests.test(name, place=place):
                folder = event_files(tmp_path / f"{name} {place}", loaded(EVENTS))
                damaged = sorted((folder / "events").iterdir())[place]
                damage(damaged)
                (run,) = runs = load_traces(folder, strict=False)
                assert run.prompt == "Why does the build fail?" and damaged.name in str(runs.problems)
