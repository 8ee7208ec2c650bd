"""The policy `minimal`: calls continue, text alone stops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import pytest
from ephemeral_text import TAG, own_set, reminder
from run_builder import a_round, todos_of
from run_checks import cells, ended, reasons
from scripted_runs import LONG_ANSWER, do, scripted, tool_run
from todo_calls import complete, mark, start, write

from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import DUPLICATE
from agentnb.errors import SettingsError
from agentnb.guidance import GuidanceSet
from agentnb.policies import Continue, Matrix, Minimal, Policy, PolicyBundle, TodoNudges, find_policy, settings_of
from agentnb.policies.gates import DuplicateGuard
from agentnb.policies.policy_sets import policy_as_logged

OPEN = todos_of("completed", "in-progress")
CALL = ToolCall("work")


@pytest.mark.req("R0.36")
def test_text_with_open_todos_brings_a_limited_number_of_nudges() -> None:
    facts = a_round(0, "Hm.")
    for index in range(1, 4):
        verdict = TodoNudges()(tool_run(*facts, todos=OPEN))
        assert isinstance(verdict, Continue)
        assert (verdict.reason, [guidance.level for guidance in verdict.guidance]) == ("todo_nudge", [1])
        facts += a_round(index, "Hm.", reason="todo_nudge")
    assert TodoNudges()(tool_run(*facts, todos=OPEN)) is None
    assert TodoNudges()(tool_run(*facts, *a_round(4, CALL), *a_round(5, "Hm."), todos=OPEN)) is None


def test_other_replies_bring_no_nudge() -> None:
    assert TodoNudges()(tool_run(*a_round(0, "Hm."))) is None
    assert TodoNudges()(tool_run(*a_round(0, "Hm.", CALL), todos=OPEN)) is None
    assert TodoNudges()(tool_run(*a_round(0, "Hm."), todos=todos_of("completed"))) is None
    assert TodoNudges()(tool_run(*a_round(0, "Hm."), todos=todos_of("blocked"))) is None


@pytest.mark.req("R0.75")
def test_failed_tool_gets_no_guidance_beside_its_error() -> None:
    run, _ = scripted(
        ToolCall("missing"), ToolCall("missing", {"item": 2}), ToolCall("missing", {"item": 3}), "Done.", policy="minimal"
    )
    assert cells(run) == [[], [], [], []]


@pytest.mark.req("R0.80", "R0.36")
def test_text_after_three_nudges_ends_the_run_with_warning() -> None:
    run, model = scripted(write("One", "Two"), "Hm.", do(1), "Well.", "So.", "Yes.", policy="minimal")
    assert reasons(run) == ["prompt", "tool_results", "todo_nudge", "tool_results", "todo_nudge", "todo_nudge"]
    assert [reminder(request).startswith("REMINDER:") for request in model.requests] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]
    assert run.rounds[1].status == "todo_nudge"
    assert ended(run) == ("completed", "natural")
    assert "2 todos are still open" in run.warnings[0]


@pytest.mark.req("R0.38", "R0.39", "KX.1")
def test_calls_continue_the_run_and_text_alone_ends_it() -> None:
    run, model = scripted(do(1), do(2), "Done.", policy="minimal")
    assert ended(run) == ("completed", "natural")
    assert all(TAG not in repr(request.messages) for request in model.requests)
    assert cells(run) == [[], [], []]


def test_minimal_policy_ignores_markers_and_keeps_them() -> None:
    run, _ = scripted("First.\n[CONTINUE]", policy="minimal")
    assert (ended(run), run.text) == (("completed", "natural"), "First.\n[CONTINUE]")
    run, _ = scripted('{"status": "complete"}', policy="minimal")
    assert run.text == '{"status": "complete"}'
    run, _ = scripted(write("One"), "[WORKFLOW_COMPLETE]", start(1), complete(1), "Done.", policy="minimal")
    assert reasons(run)[2] == "todo_nudge"


def test_minimal_policy_ignores_repeated_answers_and_planning() -> None:
    thoughts = [ToolCall("think", {"thought": str(number)}) for number in range(9)]
    run, _ = scripted(write("One"), *thoughts, *[LONG_ANSWER] * 4, policy="minimal")
    assert ended(run) == ("completed", "natural")
    assert {cell for said in cells(run) for cell, _ in said} == {"intervention"}


@pytest.mark.req("K0.9")
def test_blocked_todos_bring_no_nudge() -> None:
    run, _ = scripted(write("One"), mark(1, "blocked", blockedReason="no key"), "I cannot.", policy="minimal")
    assert ended(run) == ("completed", "natural")
    assert "(blocked: no key)" in run.warnings[0]


def test_third_identical_batch_is_blocked_and_soon_ends_the_run() -> None:
    batch = [do(1), do(2)]
    run, _ = scripted(*[batch] * 4, policy=Minimal(guard=None))
    assert [[result.error_code for result in round.results] for round in run.rounds] == [[None] * 2] * 2 + [[DUPLICATE] * 2] * 2
    assert ended(run) == ("stopped", "loop_detected")


def test_nudges_use_the_texts_of_the_guidance_set() -> None:
    _, model = scripted(write("One"), "Hm.", start(1), complete(1), "Ok.", policy="minimal", guidance=own_set(reminder="Todo!"))
    assert reminder(model.requests[2]) == "Todo!"
    run, model = scripted(write("One"), "Hm.", start(1), complete(1), "Ok.", policy="minimal", guidance="off")
    assert TAG not in repr(model.requests[2].messages)
    assert reasons(run)[2] == "todo_nudge"


def test_unknown_policy_is_refused_with_similar_names() -> None:
    assert find_policy("matrix") == Matrix()
    assert find_policy("minimal") == Minimal()
    assert find_policy(Minimal(todo_nudges=1)) == Minimal(todo_nudges=1)
    with pytest.raises(SettingsError, match=r"'minimum'.*Did you mean minimal"):
        find_policy("minimum")
    with pytest.raises(SettingsError, match="is not a policy"):
        find_policy(Matrix)  # type: ignore[arg-type]


def test_run_logs_the_policy_and_all_its_settings() -> None:
    run, _ = scripted("Done.", policy=Minimal(todo_nudges=1))
    logged = run.settings["policy"]
    assert logged == settings_of(Minimal(todo_nudges=1))
    assert set(logged) == {"name", *[one.name for one in fields(Minimal)]} and logged["todo_nudges"] == 1
    assert set(logged["guard"]) == {one.name for one in fields(DuplicateGuard)}
    assert settings_of(Matrix(guard=None)) == {**settings_of(Matrix()), "guard": None}
    for policy in (Matrix(), Minimal(guard=None), Matrix(workflow_mode=True, guard=DuplicateGuard(exempt=frozenset({"poll"})))):
        assert policy_as_logged(settings_of(policy)) == policy


@dataclass(frozen=True)
class Own:
    """A user-defined policy with settings; some cannot be logged."""

    name: ClassVar[str] = "own"
    most: int = 3
    words: tuple[str, ...] = ("go", "on")
    weights: dict[str, float] = field(default_factory=lambda: {"a": 0.5})
    inner: Any = None
    check: Any = print
    odd: Any = field(default_factory=lambda: {1: "one"})

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the rules of `minimal`."""
        return Minimal().rules(words, *limits, repeatable=repeatable)


def test_custom_policy_logs_its_plain_settings_and_class() -> None:
    logged = settings_of(Own(inner=DuplicateGuard(window=5)))
    assert (logged["name"], logged["class"]) == ("own", f"{Own.__module__}.Own")
    assert (logged["words"], logged["weights"], logged["inner"]["window"]) == (["go", "on"], {"a": 0.5}, 5)
    assert scripted("Done.", policy=Own())[0].settings["policy"]["class"] == logged["class"]
    assert logged["most"] == 3 and not {"check", "odd"} & set(logged)


def test_invalid_policy_settings_are_refused(subtests: pytest.Subtests) -> None:
    for settings in [{"todo_nudges": 0}, {"batches": True}, {"blocked_rounds": "2"}, {"guard": "on"}]:
        with subtests.test(settings=settings):
            with pytest.raises(SettingsError, match=f"{next(iter(settings))}=.* is not valid for the policy minimal"):
                Minimal(**settings)  # type: ignore[arg-type]
