"""Tools that a task file may call: all, none, or those that a person approves."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from task_examples import on_virtual_time, played

from agentnb import MCPServer, Run, Store, Workflow
from agentnb.core.log.work_events import StepStarted
from agentnb.core.messages import ToolCall
from agentnb.core.questions import NoAnswer, WaitingOnUser
from agentnb.errors import QuestionCancelled, WorkflowProblems
from agentnb.policies.gates import Deny
from agentnb.session.recovery import recover
from agentnb.tools.mcp.wire_names import wire_name
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.tasks.action_table import ActionTable
from agentnb.workflow.tasks.task_calls import ActionCall, FileRules

TASKS = """
stage:
  read: {action: file:read, input: {path: a.txt}}
  send:
    action: mail:send
    input: {to: ann}
    goto: {when: "times < TIMES", task: send}
    post: {times: "${times + 1}"}
vars: {times: 0}
"""


class Tools:
    """Two tools that record their calls."""

    def __init__(self) -> None:
        self.called: list[str] = []

        async def file_read(path: str) -> str:
            self.called.append(f"read {path}")
            return "text"

        async def mail_send(to: str) -> str:
            self.called.append(f"send {to}")
            return f"sent to {to}"

        self.tools = [file_read, mail_send]


def asked_about(times: int = 1, approval: str = "{mode: ask, allow: [file.read]}") -> str:
    return f"approval: {approval}\n{TASKS}".replace("TIMES", str(times))


@pytest.mark.req("R1.10")
def test_approval_mode_and_lists_decide_each_tool_call(subtests: pytest.Subtests) -> None:
    both, first = ["read a.txt", "send ann"], ["read a.txt"]
    cases: list[tuple[str, Any, list[str], str]] = [
        ("auto", None, both, "completed"),
        ("{mode: auto, block: ['mail:send']}", None, first, "failed"),
        ("deny", None, [], "failed"),
        ("{mode: deny, allow: [file/read, mail_send]}", None, both, "completed"),
        ("{mode: deny, allow: [file_read, mail_send], block: [mail_send]}", None, first, "failed"),
        ("{mode: ask, allow: [file_read]}", True, both, "completed"),
        ("{mode: ask, allow: [file_read]}", "not to her", first, "failed"),
        ("{mode: ask, allow: [file_read]}", {"to": "bob"}, ["read a.txt", "send bob"], "completed"),
        ("ask", None, [], "failed"),
    ]
    for approval, decided, called, status in cases:
        with subtests.test(f"{approval} {decided}"):
            tools = Tools()

            def approve(call: ToolCall, run: Run, decided: Any = decided) -> Any:
                return decided

            settings = {} if decided is None else {"approve": approve}
            run = played(asked_about(approval=approval), tools=tools.tools, **settings)
            assert (tools.called, run.status) == (called, status)
            if isinstance(decided, str):
                assert run.error is not None and decided in run.error.message


@pytest.mark.req("R1.10")
def test_unanswered_approval_suspends_and_each_execution_asks_again(tmp_path: Path) -> None:
    tools, store = Tools(), Store(tmp_path)
    workflow = Workflow.from_yaml(asked_about(times=2), tools=tools.tools)
    run = on_virtual_time(lambda: workflow.run(store=store, show=False, suspend=True))
    for number in (1, 2):
        assert run.status == "waiting_on_user"
        assert tools.called == ["read a.txt", *(["send ann"] * (number - 1))]
        (question,) = run.waiting
        assert (question.kind, question.call_id) == ("approval", "send")
        assert "mail_send" in question.message and question.about and "ann" in question.about.arguments
        answers = {question.id: "approve"}
        run = asyncio.run(recover(run.id, store=store, tools=tools.tools, answers=answers, suspend=True))
    assert (run.status, run.text) == ("completed", "sent to ann")
    assert tools.called == ["read a.txt", "send ann", "send ann"]


def test_denied_call_is_not_retried() -> None:
    tools = Tools()
    text = "approval: deny\nstage:\n  one: {action: mail:send, input: {to: ann}, retry: {maxRetries: 2, delay: 1}}\n"
    run = played(text, tools=tools.tools)
    assert (run.status, run.step_records["one"].attempts, tools.called) == ("failed", 1, [])


def test_server_tool_names_are_blocked_in_each_spelling(subtests: pytest.Subtests) -> None:
    cases = {
        "mcp:clock": (True, True, True),
        "mcp:clock/*": (True, True, True),
        "mcp:clock/get*": (False, True, False),
        "mcp:clock/now": (True, False, True),
        "mcp_clock_now": (True, False, False),
    }
    names = ("mcp_clock_now", "mcp_clock_get_zone", wire_name("clock", "now", with_digest=True))
    for word, blocked in cases.items():
        with subtests.test(word):
            file = read_workflow(asked_about(approval=f"{{block: ['{word}']}}"))
            ActionTable(Toolbox([*Tools().tools, MCPServer("clock", "clock-server")])).check(file)
            verdicts = [FileRules(file.approval.rules)(ToolCall(name, {}, "a"), Run()) for name in names]
            assert tuple(isinstance(verdict, Deny) for verdict in verdicts) == blocked


def test_invalid_rules_are_problems() -> None:
    for approval, word in (("always", "deny"), ("{mode: ask, alow: []}", "allow"), ("[ask]", "mapping")):
        with pytest.raises(WorkflowProblems, match=word):
            read_workflow(asked_about(approval=approval))
    with pytest.raises(WorkflowProblems, match="mail_sent"):
        Workflow.from_yaml(asked_about(approval="{block: [mail_sent]}"), tools=Tools().tools).orchestration()


@pytest.mark.req("R1.10")
def test_approval_applies_only_to_its_own_execution(tmp_path: Path) -> None:
    tools, store = Tools(), Store(tmp_path)
    workflow = Workflow.from_yaml(asked_about(times=2), tools=tools.tools)
    run = on_virtual_time(lambda: workflow.run(store=store, show=False, approve=lambda call, run: True))
    starts = [place for place, event in enumerate(run.events) if isinstance(event, StepStarted) and event.step == "send"]
    log = store.path(run.id)
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(lines[: starts[1] + 1]), encoding="utf-8")  # killed before the next question
    tools.called.clear()
    again = asyncio.run(recover(run.id, store=store, tools=tools.tools, suspend=True))
    assert (again.status, len(again.waiting), tools.called) == ("waiting_on_user", 1, [])


@pytest.mark.req("R1.10")
def test_action_may_ask_a_question_that_is_answered_on_resume(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []

    async def ask(call: ActionCall) -> Any:
        seen.append(call.input)
        return await call.ask("0", "How deep?", {"type": "integer"})

    text = "stage:\n  one: {action: person:ask, post: {depth: '${content}'}}\n"
    workflow = Workflow.from_yaml(text)
    run = on_virtual_time(lambda: workflow.run(store=store, show=False, suspend=True, actions={"person:ask": ask}))
    (question,) = run.waiting
    assert (question.kind, question.message, question.call_id) == ("elicitation", "How deep?", "one/0")
    agent = workflow.orchestration(actions={"person:ask": ask})
    run = asyncio.run(recover(run.id, store=store, agent=agent, answers={question.id: 7}))
    assert (run.status, run.variables, len(seen)) == ("completed", {"depth": 7}, 2)

    def closes(question: WaitingOnUser) -> None:
        raise QuestionCancelled("No")

    for answer, action in ((lambda question: None, "decline"), (closes, "cancel")):
        without = on_virtual_time(partial(workflow.run, show=False, actions={"person:ask": ask}, answer=answer))
        assert without.step_context["steps"]["one"]["output"] == {"action": action, "content": None}
    for given, action in ((NoAnswer.DECLINE, "decline"), (NoAnswer.CANCEL, "cancel")):
        run = on_virtual_time(lambda: workflow.run(store=store, show=False, suspend=True, actions={"person:ask": ask}))
        run = asyncio.run(recover(run.id, store=store, agent=agent, answers={run.waiting[0].id: given}))
        assert run.step_context["steps"]["one"]["output"] == {"action": action, "content": None}
