"""Runs of an agent of others: the same log, door, limits and ends as any run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentnb import Agent, replay
from agentnb.acp.known_agents import KnownAgent
from agentnb.agent.from_log import agent_of
from agentnb.core.log.events import CallBlocked, QuestionAsked, RoundStarted, TextDelta, ThinkingDelta, TodosChanged, Warned
from agentnb.core.log.well_formed import check_events
from agentnb.core.usage import Usage
from agentnb.errors import ModelError, SettingsError

Make = Callable[..., Agent]


def test_words_and_thoughts_stream_and_are_logged(fake: Make) -> None:
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
        ("two", [("read_file", {"path": "b.txt"}, "beta"), ("bash", {"command": "ls"}, "b.txt")], "Both."),
    ],
)
def test_calls_have_their_arguments_results_and_rounds(fake: Make, prompt: str, calls: list[object], text: str) -> None:
    run = fake().run_sync(prompt, approve="auto")
    made = [record for current in run.rounds for record in current.records]
    assert [(one.call.name, one.call.arguments, one.result.text) for one in made if one.result] == calls
    assert (run.text, len(run.rounds)) == (text, 2)
    check_events(run.events, "the log")


def test_arguments_that_come_as_a_growing_text_are_judged_whole(fake: Make) -> None:
    run = fake().run_sync("growing", permissions={"bash(touch *)": "deny"}, approve=lambda call, run: True)
    (record,) = [record for current in run.rounds for record in current.records]
    assert (record.call.name, record.call.arguments) == ("bash", {"command": "touch a.txt"})
    assert [event.call.name for event in run.events if isinstance(event, CallBlocked)] == ["bash"]


def test_a_call_is_asked_about_before_it_has_any_effect(fake: Make, tmp_path: Path) -> None:
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
        {"approve": "never"},
        {"approve": "read_only"},
        {"permissions": {"write_file": "deny"}, "approve": "auto"},
        {"permissions": {"write_file(*.txt)": "deny"}, "approve": "auto"},
    ],
)
def test_a_call_that_is_not_allowed_is_rejected(fake: Make, tmp_path: Path, options: dict[str, Any]) -> None:
    run = fake().run_sync("write", **options)
    assert (run.text, run.status) == ("Was rejected.", "completed")
    assert [event.call.name for event in run.events if isinstance(event, CallBlocked)] == ["write_file"]
    assert not (tmp_path / "a.txt").exists()


def test_arguments_that_the_person_edits_are_a_rejection(fake: Make, tmp_path: Path) -> None:
    run = fake().run_sync("write", approve=lambda call, run: {"path": "b.txt", "content": "beta"})
    assert run.text == "Was rejected."
    assert not [*tmp_path.iterdir()]


def test_it_starts_in_the_mode_in_which_it_asks(fake: Make) -> None:
    assert fake().run_sync("mode").text == "default"
    assert fake(mode="auto").run_sync("mode").text == "auto"


def test_a_plan_is_the_todo_list(fake: Make) -> None:
    run = fake().run_sync("plan")
    assert [(todo.title, todo.status) for todo in run.todos] == [("Load", "completed"), ("Tell", "not-started")]
    assert {event.by for event in run.events if isinstance(event, TodosChanged)} == {"model"}


def test_what_nobody_knows_ends_nothing(fake: Make) -> None:
    assert fake().run_sync("odd").text == "Odd."


def test_an_agent_that_dies_fails_the_run_with_its_last_words(fake: Make) -> None:
    with pytest.raises(ModelError, match=r"acp:fake has ended.*out of memory") as raised:
        fake().run_sync("die")
    run: Any = raised.value.run
    assert (run.status, run.text) == ("failed", "Now ")


@pytest.mark.parametrize(("prompt", "error"), [("crash", "out of memory"), ("error", "lost 'call-1'"), ("open", "")])
def test_a_call_that_the_agent_leaves_open_ends_with_its_turn(fake: Make, prompt: str, error: str) -> None:
    run = fake().start(prompt, approve="auto").result(20)
    assert (run.status, error in str(run.error)) == ("failed" if error else "completed", True)
    (record,) = [record for current in run.rounds for record in current.records]
    assert record.result is not None
    assert "without a result" in record.result.text
    check_events(run.events, "the log")


@pytest.mark.parametrize(("prompt", "is_named"), [("unasked", True), ("late", False)])
def test_a_command_that_ran_unasked_although_denied_is_named(fake: Make, prompt: str, is_named: bool) -> None:
    run = fake().run_sync(prompt, permissions={"bash": "deny"}, approve="auto")
    warnings = [event.message for event in run.events if isinstance(event, Warned)]
    assert warnings == is_named * ["acp:fake did not ask about bash: it may have run although it was not allowed"]


def test_a_run_is_replayed_as_it_went(fake: Make) -> None:
    assert "gone as recorded" in str(replay(fake().run_sync("write", approve="auto")))


def test_to_recover_a_run_needs_the_agent_again(fake: Make) -> None:
    with pytest.raises(SettingsError, match=r"recover\(run, agent=Agent\(acp='fake'\)\)"):
        agent_of(fake().run_sync("hello"))


def test_limits_hold(fake: Make) -> None:
    run = fake(max_rounds=1).run_sync("write", approve="auto")
    assert (run.status, run.stop_reason) == ("limited", "max_rounds")
    assert len([event for event in run.events if isinstance(event, RoundStarted)]) == 1


def test_questions_show_the_call(fake: Make) -> None:
    run = fake().run_sync("write", approve=lambda call, run: True)
    (asked,) = [event.question for event in run.events if isinstance(event, QuestionAsked)]
    assert asked.about is not None
    assert (asked.about.tool, "alpha" in asked.about.arguments) == ("write_file", True)


@pytest.mark.parametrize("is_forgetful", [False, True])
def test_a_conversation_goes_on_where_the_agent_can_load_it(
    fake: Make, table: dict[str, KnownAgent], is_forgetful: bool
) -> None:
    if is_forgetful:
        table["fake"] = replace(table["fake"], command=(*table["fake"].command, "forgetful"))
    first = fake().run_sync("session")
    second = fake().run_sync("session", continue_from=first)
    assert (second.text == first.text) is not is_forgetful
    warnings = [event.message for event in second.events if isinstance(event, Warned)]
    assert bool(warnings) is is_forgetful
    assert all("cannot load the conversation" in warning for warning in warnings)


def test_what_the_person_says_meanwhile_is_the_next_prompt(fake: Make) -> None:
    def approve(call: object, run: object) -> bool:
        live.say("hello")
        return True

    live = fake().start("write", approve=approve)
    run = live.result(10)
    assert [current.text for current in run.rounds] == ["I will write.", "Written.Hello there."]
    assert run.usage == Usage(24, 6)
