"""The permission gate: questions, denials, their texts, and grants."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
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
from agentnb.core.run.approvals import ALWAYS, ASKED_BY_RULES, MODES, RULES, approval_schema, judged_call
from agentnb.core.run.rounds import DENIED
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates import Ask, Block, judge
from agentnb.policies.gates.gate_verdicts import AskByRules, AskEachTime
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.tools.read_result import READ_TOOL, ResultReader
from agentnb.tools.todos.board import TodoBoard
from agentnb.tools.todos.todo_tool import TodoTool
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


@tool(effects=["execute"], command="line")
def shell(line: str) -> None:
    """Runs."""


class OwnTool:
    """A tool class without effects."""

    spec = ToolSpec("own", "Does something.", {"type": "object"})

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        return ToolOutcome(True, ())


BOX = Toolbox(
    [
        OwnTool(),
        nothing_said,
        reads,
        writes,
        sends,
        shell,
        ask_person,
        TodoTool(TodoBoard()),
        ResultReader(lambda call_id: None, 100),
    ]
)
MORE = ("own", "nothing_said", "writes", "sends")
NO_MORE = ("reads", "ask_person", "todo_operations", READ_TOOL, "no_such_tool")


def judged(mode: str, name: str, run: Run | None = None, *, rules: Any = None, **arguments: Any) -> Ask | Block | None:
    permissions = Permissions.of(ApprovalMode.of(mode), RuleList.of(rules))
    gate = partial(PermissionGate(permissions, Path("/work")), BOX.get(name))
    return judge((gate,), ToolCall(name, arguments, "c1"), run or Run())


def test_only_tools_with_effects_beyond_reading_are_gated(subtests: pytest.Subtests) -> None:
    assert BOX.get("todo_operations") is not None
    for mode, held in {"auto": None, "ask": AskByRules, "read_only": Block}.items():
        with subtests.test(mode):
            assert [type(judged(mode, name)) for name in MORE] == [type(None) if held is None else held] * len(MORE)
            assert [judged(mode, name) for name in NO_MORE] == [None] * len(NO_MORE)
    for mode in (RULES, "never"):  # other calls would be denied: own gates ask too
        with subtests.test(mode):
            assert [type(judged(mode, name)) for name in MORE] == [type(None), type(None), AskByRules, AskByRules]
    denied = judged("read_only", "nothing_said")
    assert isinstance(denied, Block) and (denied.rule, denied.result.error_code) == ("read_only", DENIED)
    assert "only allows tools that read" in denied.result.text
    assert "not known whether this tool only reads." in denied.result.text


def test_question_states_its_reason_in_one_line(snapshot: Snapshot) -> None:
    verdict = judged("ask", "writes", path="a")
    assert isinstance(verdict, Ask) and verdict.question == snapshot("effects")
    unknown = judged("ask", "nothing_said")
    assert isinstance(unknown, Ask) and unknown.question == snapshot("unknown")
    by_rule = judged(RULES, "reads", rules={"reads": "ask"})
    assert isinstance(by_rule, Ask) and by_rule.question == snapshot("rule")
    unclear = judged("auto", "shell", rules={"shell(rm *)": "deny"}, line="$X")
    assert isinstance(unclear, AskEachTime) and unclear.question == snapshot("unclear")


def asked(answer: Any, tool: str = "writes", rule: str = "ask", kind: Any = "approval") -> Run:
    """Return a run of an earlier version with an answered question about a tool, or another of the same text."""
    verdict = judged("ask", "writes")
    assert isinstance(verdict, Ask)
    about = judged_call(ToolCall(tool, {}), rule)
    question = WaitingOnUser(kind, verdict.question, approval_schema((ALWAYS,)), "q1", "c0", about)
    return (
        RunBuilder(schema=5)
        .add(e.RoundStarted, index=0, reason="prompt")
        .add(e.QuestionAsked, question=question)
        .add(e.QuestionAnswered, question_id="q1", answer=answer)
        .run
    )


def test_grant_allows_its_tool_until_withdrawn() -> None:
    builder = RunBuilder().add(w.GrantGiven, grant_id="g1", tool="writes")
    assert judged("ask", "writes", builder.run) is None
    assert isinstance(judged("ask", "sends", builder.run), Ask) and isinstance(
        judged("read_only", "writes", builder.run), Block
    )
    assert [grant.tool for grant in builder.run.grants] == ["writes"]
    builder.add(w.GrantWithdrawn, grant_id="g1")
    assert isinstance(judged("ask", "writes", builder.run), Ask) and not builder.run.grants


def test_always_answer_in_an_older_log_allows_only_that_tool(subtests: pytest.Subtests) -> None:
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


def test_unknown_mode_is_refused_with_the_modes() -> None:
    for word in ("perhaps", "", "ask+perhaps", 3):
        wrong: Any = word
        with pytest.raises(SettingsError, match="auto, ask, never, read_only"):
            ApprovalMode.of(wrong)
    assert [ApprovalMode.of(word).words for word in MODES] == list(MODES)


def test_pattern_grant_allows_matching_calls_but_overrides_no_denial(subtests: pytest.Subtests) -> None:
    run = RunBuilder().add(w.GrantGiven, grant_id="g1", tool="shell", rule="shell(git status *)").run
    cases: list[tuple[str, Any, str, type]] = [
        ("git status -s", None, RULES, type(None)),
        ("git status -s", None, "ask", type(None)),
        ("git status -s", {"shell": "ask"}, RULES, type(None)),
        ("git status -s", {"shell": "deny"}, RULES, Block),
        ("git status -s", {"shell(rm *)": "deny"}, RULES, type(None)),
        ("git status -s", None, "read_only", Block),
        ("git status; ls", None, RULES, AskByRules),
        ("git status; $X", {"shell(rm *)": "deny"}, RULES, AskEachTime),
        ("git status; git log", {"shell(rm *)": "deny"}, RULES, AskByRules),
        ("git log", None, RULES, AskByRules),
    ]
    for line, rules, mode, kind in cases:
        with subtests.test(f"{line} {rules} {mode}"):
            assert type(judged(mode, "shell", run, rules=rules, line=line)) is kind
    whole = RunBuilder().add(w.GrantGiven, grant_id="g1", tool="w*").run
    assert judged(RULES, "writes", whole) is None and isinstance(judged(RULES, "sends", whole), AskByRules)
    assert isinstance(
        judged(
            "auto",
            "shell",
            RunBuilder().add(w.GrantGiven, grant_id="g", tool="shell").run,
            rules={"shell(rm *)": "deny"},
            line="$X",
        ),
        AskEachTime,
    )


def test_denial_names_its_flag_or_rule() -> None:
    denied = judged(RULES, "shell", rules={"shell(rm *)": "deny"}, line="ls; rm x")
    assert isinstance(denied, Block) and (denied.rule, denied.result.error_code) == ("permissions", DENIED)
    assert denied.result.text.startswith("denied: shell was not run: the rule shell(rm *) of this run denies it")
    assert judged(RULES, "no_such_tool", rules={"*": "deny"}) is None  # the model gets an error
    assert ASKED_BY_RULES == "ask"


@examples(60)
@given(ALL_MODES, ALL_MODES, ALL_MODES)
def test_nested_mode_is_the_strictest_and_can_be_reloaded(one: ApprovalMode, other: ApprovalMode, third: ApprovalMode) -> None:
    both = one.within(other)
    assert both == other.within(one) and both.within(third) == one.within(other.within(third))
    assert ApprovalMode.of(both.words) == both == ApprovalMode.from_log(both.words)
    order = ("deny", "ask", "allow")
    for name in MORE:
        tool = BOX.get(name)
        assert tool is not None
        assert both.default(tool) == min((one.default(tool), other.default(tool)), key=order.index) or both.never_asks
