"""Runs of an external agent: the same log, permissions, limits and endings as any run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from asserted_sentences import Snapshot
from msgspec.structs import replace
from property_settings import OTHER_CASES

from agentnb import Agent, Store, replay
from agentnb.acp.agent_calls import ExternalCall
from agentnb.acp.known_agents import KnownAgent
from agentnb.acp.turn_record import UNKNOWN_UPDATES
from agentnb.agent.from_log import agent_of
from agentnb.core.log.events import (
    CallBlocked,
    CommandReceived,
    QuestionAsked,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    Warned,
)
from agentnb.core.log.well_formed import check_events
from agentnb.core.messages import Image, Message, Text, ToolCall
from agentnb.core.usage import Usage
from agentnb.errors import ModelError, SettingsError
from agentnb.notebook.card.actions import ACTIONS
from agentnb.notebook.commands import COMMANDS
from agentnb.runtime.host.live_run import LiveRun

Make = Callable[..., Agent]


def test_text_and_thinking_are_streamed_and_logged(fake: Make) -> None:
    heard: list[object] = []
    run = fake().run_sync("hello", watch=heard.append)
    assert [item for item in heard if isinstance(item, TextDelta | ThinkingDelta)] == [
        ThinkingDelta("Who is there?"),
        TextDelta("Hello "),
        TextDelta("there."),
    ]
    assert (run.status, run.text, run.usage) == ("completed", "Hello there.", Usage(12, 3))
    assert (run.model, run.stop_reason) == ("acp:fake", "natural")


@pytest.mark.parametrize(
    ("prompt", "calls", "text"),
    [
        ("write", [("write_file", {"path": "a.txt", "content": "alpha\n"}, "1 line written")], "Written."),
        ("unasked", [("bash", {"command": "echo out"}, "out")], "Ran."),
        ("piecewise", [("bash", {"command": "echo out"}, "out")], "Ran."),
        ("diff", [("write_file", {"path": "a.txt"}, "a.txt\nalpha\n")], "Edited."),
        ("two", [("read_file", {"path": "b.txt"}, "beta"), ("bash", {"command": "ls"}, "b.txt")], "Both."),
    ],
)
def test_calls_are_logged_with_arguments_results_and_rounds(fake: Make, prompt: str, calls: list[object], text: str) -> None:
    run = fake().run_sync(prompt, approve="auto")
    made = [record for current in run.rounds for record in current.records]
    assert [(item.call.name, item.call.arguments, item.result.text) for item in made if item.result] == calls
    assert (run.text, len(run.rounds)) == (text, 2)
    check_events(run.events, "the log")


def test_streamed_arguments_are_checked_only_when_complete(fake: Make) -> None:
    run = fake().run_sync("growing", permissions={"bash(touch *)": "deny"}, approve=lambda call, run: True)
    (record,) = [record for current in run.rounds for record in current.records]
    assert (record.call.name, record.call.arguments) == ("bash", {"command": "touch a.txt"})
    assert [event.call.name for event in run.events if isinstance(event, CallBlocked)] == ["bash"]


def test_unreadable_permission_request_is_answered(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fake().start("garbled", approve="auto").result(20).text == "yes yes"
    monkeypatch.setattr(ExternalCall, "ask", None)  # a fault of agentnb
    assert fake().start("garbled", approve="auto").result(20).text == "cancelled cancelled"


def test_prompt_includes_texts_and_pictures(fake: Make, table: dict[str, KnownAgent]) -> None:
    prompt = Message("user", (Text("blocks"), Image("image/png", b"png")))
    with pytest.raises(ModelError, match="acp:fake takes no pictures"):
        fake().run_sync(prompt)
    table["fake"] = replace(table["fake"], command=(*table["fake"].command, "sees"))
    picture = {"type": "image", "mimeType": "image/png", "data": "cG5n"}
    assert json.loads(fake().run_sync(prompt).text) == [{"type": "text", "text": "blocks"}, picture]


def test_pattern_rule_does_not_allow_unknown_arguments(fake: Make) -> None:
    asked: list[object] = []

    def approve(call: ToolCall, run: object) -> bool:
        asked.append(call.arguments)
        return False

    fake().run_sync("blind", permissions={"bash(*)": "allow"}, approve=approve)
    assert asked == [{"title": "Run something"}]


def test_approval_is_requested_before_a_call_takes_effect(fake: Make, tmp_path: Path) -> None:
    seen: list[object] = []

    def approve(call: object, run: object) -> bool:
        seen.append((tmp_path / "a.txt").exists())
        return True

    fake().run_sync("write", approve=approve)
    assert seen == [False]
    assert (tmp_path / "a.txt").read_text() == "alpha\n"


@pytest.mark.parametrize(
    "options",
    [
        {"approve": lambda call, run: False},
        pytest.param({"approve": "never"}, marks=OTHER_CASES),
        {"approve": "read_only"},
        pytest.param({"permissions": {"write_file": "deny"}, "approve": "auto"}, marks=OTHER_CASES),
        {"permissions": {"write_file(*.txt)": "deny"}, "approve": "auto"},
    ],
)
def test_disallowed_call_is_rejected(fake: Make, tmp_path: Path, options: dict[str, Any]) -> None:
    run = fake().run_sync("write", **options)
    assert (run.text, run.status) == ("Was rejected.", "completed")
    assert [event.call.name for event in run.events if isinstance(event, CallBlocked)] == ["write_file"]
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("denied", ["write_file", "bash"])
def test_denial_is_sent_while_other_calls_run(fake: Make, denied: str) -> None:
    rules = {"write_file": "allow", "bash": "allow", denied: "deny"}
    run = fake(max_seconds=20).run_sync("both", permissions=rules)
    assert (run.status, run.text, list(run.warnings)) == ("completed", "['no', 'yes']", [])
    check_events(run.events, "the log")


def test_editing_the_arguments_rejects_the_call(fake: Make, tmp_path: Path) -> None:
    run = fake().run_sync("write", approve=lambda call, run: {"path": "b.txt", "content": "beta"})
    assert run.text == "Was rejected."
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("verdict", "answer"), [("allow", "yes"), ("deny", "no")])
def test_call_is_judged_while_another_runs(fake: Make, verdict: str, answer: str) -> None:
    run = fake().start("subagent", permissions={"bash": verdict}, approve="auto").result(20)
    (task,) = run.rounds[0].records
    assert (run.text, [record.call.name for record in task.inner]) == (answer, ["bash"])
    assert task.inner[0].result is not None and task.inner[0].result.is_error is (verdict == "deny")
    check_events(run.events, "the log")


def test_agent_starts_in_its_asking_mode(fake: Make) -> None:
    assert fake().run_sync("mode").text == "default"
    assert fake(mode="auto").run_sync("mode").text == "auto"


def test_unlisted_mode_is_refused(fake: Make) -> None:
    with pytest.raises(ModelError, match=r"has no mode 'autp'.*auto"):
        fake(mode="autp").run_sync("mode", approve="auto")


def test_agent_plan_becomes_the_todo_list(fake: Make) -> None:
    run = fake().run_sync("plan")
    assert [(todo.title, todo.status) for todo in run.todos] == [("Load", "completed"), ("Tell", "not-started")]
    assert {event.by for event in run.events if isinstance(event, TodosChanged)} == {"model"}


def test_unknown_update_kind_is_counted_and_otherwise_ignored(fake: Make) -> None:
    run = fake().run_sync("odd")
    assert run.text == "Odd."
    updates = run.last_round.metadata[UNKNOWN_UPDATES]
    assert {kind: update["count"] for kind, update in updates.items()} == {"colour_update": 2, "['no', 'kind']": 1}
    assert json.loads(updates["colour_update"]["first"]) == {"sessionUpdate": "colour_update", "colour": "red"}


def test_repeatedly_sent_growing_content_is_logged_once(fake: Make) -> None:
    run = fake().run_sync("grow", approve="auto")
    (record,) = [record for current in run.rounds for record in current.records]
    assert (record.call.arguments, record.result and record.result.text) == ({"command": "echo out"}, "out")
    assert len(run.events) == len(fake().run_sync("open", approve="auto").events)


def test_rounds_keep_the_order_of_a_burst(fake: Make) -> None:
    run = fake().run_sync("burst", approve="auto")
    assert [(current.text, len(current.records)) for current in run.rounds] == [("", 1), ("Ran.", 1), ("Ran.", 1), ("Ran.", 0)]
    check_events(run.events, "the log")


def test_rounds_are_marked_as_inferred(fake: Make) -> None:
    run = fake().run_sync("unasked", approve="auto")
    assert [current.metadata["rounds"] for current in run.rounds] == ["inferred", "inferred"]


def test_permission_request_with_a_diff_changes_no_arguments(fake: Make) -> None:
    run = fake().run_sync("through", approve=lambda call, run: True)
    (record,) = run.rounds[0].records
    assert (sorted(record.call.arguments), list(run.warnings)) == (["content", "path"], [])


@pytest.mark.parametrize(
    ("prompt", "errors", "status", "stop_reason"),
    [
        ("refuse", r"^Error: \d{3} ", "failed", "error"),
        ("hello", r"^Error: \d{3} ", "completed", "natural"),
        ("refuse", "error", "completed", "natural"),
        ("refuse", "", "completed", "unchecked"),
        ("cut", "error", "stopped", "max_tokens"),
    ],
)
def test_run_status_follows_the_settings_of_the_agent(
    fake: Make, table: dict[str, KnownAgent], prompt: str, errors: str, status: str, stop_reason: str
) -> None:
    table["fake"] = replace(table["fake"], errors=errors)
    run = fake().start(prompt).result(20) if status != "failed" else failed(fake(), prompt)
    assert (run.status, run.stop_reason) == (status, stop_reason)
    assert "gone as recorded" in str(replay(run))
    if status == "failed":
        assert str(run.error) == "acp:fake: Error: 401 invalid key"
        assert (run.usage, run.text) == (Usage(12, 3), "Error: 401 invalid key\nTry again later.")


def failed(agent: Agent, prompt: str) -> Any:
    """Return a run that has failed in its first round."""
    with pytest.raises(ModelError) as raised:
        agent.run_sync(prompt)
    return raised.value.run


@pytest.mark.parametrize("limit", ["max_tool_calls", "max_seconds", "budget"])
def test_limits_on_calls_time_and_cost_end_the_turn(fake: Make, table: dict[str, KnownAgent], limit: str) -> None:
    table["fake"] = replace(table["fake"], cost="session")
    prompt, value = {"max_tool_calls": ("two unasked", 2), "max_seconds": ("deaf", 0.5), "budget": ("spend spend", 0.2)}[limit]
    run = fake(**{limit: value}).run_sync(prompt, approve="auto")
    assert (run.status, run.stop_reason) == ("limited", limit)


def test_budget_is_refused_if_the_cost_is_unknown(fake: Make) -> None:
    with pytest.raises(SettingsError, match="acp:fake does not report its cost, so a budget cannot be enforced"):
        fake(budget=1.0).run_sync("hello")


def test_agent_that_dies_fails_the_run_with_its_output(
    fake: Make, table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANTED", key := "a-key-of-the-person-0123456789")
    table["fake"] = replace(table["fake"], keys=("WANTED",))
    with pytest.raises(ModelError, match=r"acp:fake has ended.*out of memory \.+\[key\]") as raised:
        fake().run_sync("die")
    run: Any = raised.value.run
    assert (run.status, run.text) == ("failed", "Now ")
    assert key[:9] not in f"{raised.value!r} {raised.value} {run.events}"


def test_standard_error_of_an_agent_is_kept_beside_its_log(
    fake: Make, table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WANTED", key := "a-key-of-the-person-0123456789")
    table["fake"] = replace(table["fake"], keys=("WANTED",))
    store = Store(tmp_path / "runs")
    with pytest.raises(ModelError) as raised:
        fake().run_sync("die", store=store)
    (run_id,) = store.ids()
    file = tmp_path / "runs" / f".before-{run_id}" / "stderr.txt"
    assert f"(more in {file})" in str(raised.value)
    assert file.read_text() == f"out of memory {'.' * 470}[key]\n}}\n"
    assert file.parent.stat().st_mode & 0o077 == 0
    store.delete(run_id)
    assert not file.parent.exists() and key not in str(raised.value)


@pytest.mark.parametrize(("prompt", "error"), [("crash", "out of memory"), ("error", "lost 'call-1'"), ("open", "")])
def test_call_left_open_by_the_agent_ends_with_its_turn(fake: Make, prompt: str, error: str) -> None:
    run = fake().start(prompt, approve="auto").result(20)
    assert (run.status, error in str(run.error)) == ("failed" if error else "completed", True)
    (record,) = [record for current in run.rounds for record in current.records]
    assert record.result is not None
    assert "without a result" in record.result.text
    check_events(run.events, "the log")


@pytest.mark.parametrize(
    ("prompt", "verdict", "warning"),
    [
        ("unasked", "deny", "acp:fake did not ask about bash: it may have run without permission"),
        ("late", "deny", "acp:fake ended its turn after bash was not allowed"),
        ("idle unasked", "allow", "acp:fake announced calls that it did not make: bash"),
        ("change", "allow", "acp:fake changed the arguments of bash after agentnb had checked the call"),
    ],
)
def test_call_made_without_permission_or_never_made_warns(fake: Make, prompt: str, verdict: str, warning: str) -> None:
    run = fake().run_sync(prompt, permissions={"bash": verdict}, approve=lambda call, run: True)
    assert [event.message for event in run.events if isinstance(event, Warned)] == [warning]
    (record,) = run.rounds[0].records
    assert record.call.arguments in ({"command": "echo out"}, {"command": "make"}, {"command": "ls"})


def test_run_is_replayed_unchanged(fake: Make) -> None:
    assert "gone as recorded" in str(replay(fake().run_sync("write", approve="auto")))


def test_recovering_a_run_requires_the_agent(fake: Make) -> None:
    with pytest.raises(SettingsError, match=r"recover\(run, agent=Agent\(acp='fake'\)\)"):
        agent_of(fake().run_sync("hello"))


def test_round_limit_is_enforced(fake: Make) -> None:
    run = fake(max_rounds=1).run_sync("write", approve="auto")
    assert (run.status, run.stop_reason) == ("limited", "max_rounds")
    assert len([event for event in run.events if isinstance(event, RoundStarted)]) == 1


def test_approval_question_shows_the_call(fake: Make, snapshot: Snapshot) -> None:
    run = fake().run_sync("write", approve=lambda call, run: True)
    (asked,) = [event.question for event in run.events if isinstance(event, QuestionAsked)]
    assert asked.about is not None
    assert (asked.about.tool, "alpha" in asked.about.arguments) == ("write_file", True)
    assert asked.message.splitlines()[1:] == snapshot


@pytest.mark.parametrize("misbehaviour", ["", "lost", pytest.param("forgetful", marks=OTHER_CASES)])
def test_conversation_continues_if_the_agent_can_load_it(fake: Make, table: dict[str, KnownAgent], misbehaviour: str) -> None:
    table["fake"] = replace(table["fake"], command=(*table["fake"].command, misbehaviour))
    first = fake().run_sync("session")
    second = fake().run_sync("session", continue_from=first)
    assert (second.text == first.text) is not bool(misbehaviour)
    assert second.text.startswith("s-")
    warnings = [event.message for event in second.events if isinstance(event, Warned)]
    assert bool(warnings) is bool(misbehaviour)
    assert all("cannot load the conversation" in warning for warning in warnings)


def test_pause_delays_questions_while_the_turn_continues(fake: Make) -> None:
    items: list[object] = []

    def watch(item: object) -> None:
        if isinstance(item, TextDelta):
            items.append(item.text)
        elif isinstance(item, CommandReceived | QuestionAsked):
            items.append(item.command if isinstance(item, CommandReceived) else "asked")
        if item == TextDelta("Hello "):
            live.pause()
        elif isinstance(item, CommandReceived) and item.command == "pause":
            live.resume()

    rules = {"bash": "allow", "write_file": "ask"}
    live = fake().start("hello unasked write", approve=lambda call, run: True, permissions=rules, watch=watch)
    run = live.result(20)
    assert run.text == "Written."
    assert items == ["Hello ", "there.", "Ran.", "I will write.", "pause", "resume", "asked", "Written."]
    check_events(run.events, "the log")


def test_pause_delays_the_next_turn(fake: Make) -> None:
    items: list[str] = []

    def watch(item: object) -> None:
        if isinstance(item, CommandReceived):
            items.append(item.command)
            if item.command == "pause":
                live.resume()
        elif item == TextDelta("Hello "):
            live.pause()
            live.say("mode")
        elif isinstance(item, TextDelta):
            items.append(item.text)

    live = fake().start("hello", watch=watch)
    assert live.result(20).text == "default"
    assert items == ["there.", "pause", "say", "resume", "default"]


def _by_code(live: LiveRun) -> None:
    live.say("mode", now=True)


def _by_card(live: LiveRun) -> None:
    ACTIONS["say"](live, {"do": "say", "text": "mode", "now": True})


def _by_command(live: LiveRun) -> None:
    session: Any = SimpleNamespace(current=lambda: live)
    COMMANDS["say"](session, cast("Any", None), "--now mode")


@pytest.mark.parametrize(("prompt", "say"), [("sleep", _by_code), ("muse", _by_card), ("write", _by_command)])
def test_message_sent_now_ends_the_turn_and_starts_another(fake: Make, prompt: str, say: Callable[[LiveRun], None]) -> None:
    def watch(item: object) -> None:
        if item in (TextDelta("Sleeping"), ThinkingDelta("Hm")) or isinstance(item, QuestionAsked):
            say(live)

    live = fake().start(prompt, watch=watch)
    run = live.result(20)
    assert (run.text.removeprefix("Was rejected."), run.status) == ("default", "completed")


def test_message_during_a_turn_becomes_the_next_prompt(fake: Make) -> None:
    def approve(call: object, run: object) -> bool:
        live.say("hello")
        return True

    live = fake().start("write", approve=approve)
    run = live.result(10)
    assert [current.text for current in run.rounds] == ["I will write.", "Written.Hello there."]
    assert run.usage == Usage(24, 6)


@pytest.mark.parametrize(
    ("said", "unknown"), [("odd", 4), *[pytest.param(said, 2, marks=OTHER_CASES) for said in ("hello", "unasked")]]
)
def test_usage_of_turns_within_a_reply_is_added(fake: Make, table: dict[str, KnownAgent], said: str, unknown: int) -> None:
    table["fake"] = replace(table["fake"], cost="session")

    def approve(call: object, run: object) -> bool:
        live.say(said)
        return True

    live = fake().start("spend write odd", approve=approve, permissions={"bash": "allow"})
    run = live.result(20)
    metadata = next(current.metadata for current in run.rounds if "Odd." in current.text)
    assert (metadata[UNKNOWN_UPDATES]["colour_update"]["count"], metadata["session_cost"]) == (unknown, 0.75)
    assert (run.usage.input, run.usage.output) == (24, 6)
