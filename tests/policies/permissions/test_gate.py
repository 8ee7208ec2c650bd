"""Approval modes: which calls their gate asks about or denies, and what the modes of nested runs are together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import RunBuilder

from agentnb import ask_person, tool
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.run.approvals import MODES, approval_schema, judged_call
from agentnb.core.run.rounds import DENIED
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates import ApprovalMode, Ask, Block, judge
from agentnb.policies.gates.approval_mode import STRICTEST_FIRST, AskByMode
from agentnb.policies.gates.rules import Rule, verdict_of
from agentnb.tools.read_result import READ_TOOL, ResultReader
from agentnb.tools.todos.board import TodoBoard
from agentnb.tools.todos.tool import TodoTool
from agentnb.tools.tool import ToolContext, ToolOutcome
from agentnb.tools.toolbox import Toolbox

ALL_MODES = st.lists(st.sampled_from(MODES), min_size=1).map("+".join).map(ApprovalMode.of)


def nothing_said() -> None:
    """Does not say what it does."""


@tool(effects=["read"])
def reads() -> None:
    """Reads."""


@tool(effects=["read", "write"])
def writes() -> None:
    """Writes too."""


@tool(effects=["network"])
def sends() -> None:
    """Sends."""


class OwnTool:
    """A tool of a class that knows nothing of effects."""

    spec = ToolSpec("own", "Does something.", {"type": "object"})

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        return ToolOutcome(True, ())


BOX = Toolbox(
    [OwnTool(), nothing_said, reads, writes, sends, ask_person, TodoTool(TodoBoard()), ResultReader(lambda call_id: None, 100)]
)
MORE = ("own", "nothing_said", "writes", "sends")
NO_MORE = ("reads", "ask_person", "todo_operations", READ_TOOL, "no_such_tool")


def judged(mode: str, name: str, run: Run | None = None, **arguments: Any) -> Ask | Block | None:
    gate = ApprovalMode.of(mode).gate(BOX.get)
    return judge(() if gate is None else (gate,), ToolCall(name, arguments, "c1"), run or Run())


def test_only_tools_that_do_more_than_read_are_held_up(subtests: pytest.Subtests) -> None:
    assert BOX.get("todo_operations") is not None
    for mode, held in {"auto": None, "ask": AskByMode, "never": None, "read_only": Block}.items():
        with subtests.test(mode):
            assert [type(judged(mode, name)) for name in MORE] == [type(None) if held is None else held] * len(MORE)
            assert [judged(mode, name) for name in NO_MORE] == [None] * len(NO_MORE)
    denied = judged("read_only", "nothing_said")
    assert isinstance(denied, Block) and (denied.rule, denied.result.error_code) == ("read_only", DENIED)
    assert "only allows tools that read" in denied.result.text and "does not declare what it does" in denied.result.text


def test_the_question_shows_the_arguments_and_what_the_tool_may_do() -> None:
    found = judged("ask", "writes", path="a")
    assert isinstance(found, Ask) and found.approvals == ("always",)
    assert found.question.startswith('May writes run with {"path":"a"}?\nwrites may: read, write.')
    long = judged("ask", "sends", text="x" * 1000, other=object())
    assert isinstance(long, Ask) and "sends run with arguments of 1," in long.question and "xx" not in long.question


def asked(answer: Any, tool: str = "writes", rule: str = "ask", kind: Any = "approval") -> Run:
    """A run of an earlier version in which the question about a tool was answered, or another with the same sentence."""
    found = judged("ask", "writes")
    assert isinstance(found, Ask)
    about = judged_call(ToolCall(tool, {}), rule)
    question = WaitingOnUser(kind, found.question, approval_schema(found.approvals), "q1", "c0", about)
    return (
        RunBuilder(schema=5)
        .add(e.RoundStarted, index=0, reason="prompt")
        .add(e.QuestionAsked, question=question)
        .add(e.QuestionAnswered, question_id="q1", answer=answer)
        .run
    )


def test_grant_allows_its_tool_until_it_is_taken_back() -> None:
    builder = RunBuilder().add(w.GrantGiven, grant_id="g1", tool="writes")
    assert judged("ask", "writes", builder.run) is None
    assert isinstance(judged("ask", "sends", builder.run), Ask) and isinstance(
        judged("read_only", "writes", builder.run), Block
    )
    assert [grant.tool for grant in builder.run.grants] == ["writes"]
    builder.add(w.GrantWithdrawn, grant_id="g1")
    assert isinstance(judged("ask", "writes", builder.run), Ask) and not builder.run.grants


def test_always_in_an_earlier_log_allows_this_tool_and_nothing_else(subtests: pytest.Subtests) -> None:
    always = asked("always")
    assert judged("ask", "writes", always) is None
    assert isinstance(judged("ask", "sends", always), Ask)
    assert isinstance(judged("read_only", "writes", always), Block)
    for name, run in {
        "approved once": asked("approve"),
        "declined": asked(None),
        "another tool": asked("always", "write"),
        "another gate": asked("always", rule="careful"),
        "of a tool": asked("always", kind="elicitation"),
    }.items():
        with subtests.test(name):
            assert isinstance(judged("ask", "writes", run), Ask)


def test_an_unknown_word_is_refused_with_the_modes() -> None:
    for word in ("perhaps", "", "ask+perhaps", 3):
        wrong: Any = word
        with pytest.raises(SettingsError, match="auto, ask, never, read_only"):
            ApprovalMode.of(wrong)
    assert [ApprovalMode.of(word).words for word in MODES] == list(MODES)


@examples(60)
@given(ALL_MODES, ALL_MODES, ALL_MODES)
def test_what_either_mode_forbids_is_forbidden_in_a_nested_run_and_a_log_keeps_it(
    one: ApprovalMode, other: ApprovalMode, third: ApprovalMode
) -> None:
    both = one.within(other)
    assert both == other.within(one) and both.within(third) == one.within(other.within(third))
    assert ApprovalMode.of(both.words) == both
    for name in (*MORE, *NO_MORE):
        for is_asked in (False, True):
            verdicts = [mode.verdict(name, BOX.get(name), is_asked=is_asked) for mode in (one, other)]
            assert both.verdict(name, BOX.get(name), is_asked=is_asked) == min(verdicts, key=STRICTEST_FIRST.index)


def test_the_first_rule_that_fits_a_call_decides(subtests: pytest.Subtests) -> None:
    rules = [Rule("deny", "send*"), Rule("allow", flag="reads"), Rule("ask", "writes"), Rule("deny", flag="asked")]
    for name, is_asked, verdict in [
        ("sends", False, "deny"),
        ("reads", False, "allow"),
        ("writes", False, "ask"),
        ("own", False, "allow"),
        ("reads", True, "deny"),
    ]:
        with subtests.test(f"{name}, {is_asked}"):
            assert verdict_of(rules, name, BOX.get(name), is_asked=is_asked) == verdict
