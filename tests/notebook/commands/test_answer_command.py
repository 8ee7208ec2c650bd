"""Answering a run in the background from another cell."""

from __future__ import annotations

import re
from typing import Any

import pytest

MODEL = '''
from agentnb import ToolCall, ask_person
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

def last(request):
    return request.messages[-1].parts[0].text

def asking(**arguments):
    return ScriptedModel([ToolCall("ask_person", {"question": "Which {colour}?", **arguments}), last])

async def numbered(context: ToolContext) -> str:
    """Ask for a number."""
    number = await context.ask("How many?", {"type": "integer", "minimum": 1})
    return f"{number + 1} of them"
'''


@pytest.fixture(scope="module", autouse=True)
def tools(kernel: Any) -> None:
    assert kernel.run(MODEL).status == "ok"


def begin(kernel: Any, tool: str = "ask_person") -> None:
    """A run in the background that has just asked."""
    cell = kernel.run(f"%%agent -m model -t {tool} --background\nGo.", attended=True)
    assert cell.status == "ok", cell.error
    kernel.wait_for("run.status == 'waiting_on_user'")


def ended_with(kernel: Any) -> str:
    kernel.wait_for("not run.should_continue")
    return kernel.value("run.text")


@pytest.mark.req("KX.5", "R3.13")
def test_answer_from_another_cell_resumes_the_run(kernel: Any) -> None:
    kernel.run("model = asking()")
    begin(kernel)
    printed = kernel.run("%agent status").printed
    assert (
        "Waiting for you:" in printed
        and "It asks: Which {colour}?" in printed
        and re.search(r"%agent answer \w{8} TEXT", printed)
    )
    cell = kernel.run("%agent answer the {data} of $HOME")
    assert "continues with your answer" in cell.printed
    assert ended_with(kernel) == "the {data} of $HOME"
    assert "It asks" not in kernel.run("%agent status").printed


def test_short_id_names_the_run_and_other_text_answers(kernel: Any) -> None:
    for name in (lambda run_id: f"…{run_id[-4:]}", lambda run_id: run_id[-8:], lambda run_id: run_id):
        kernel.run("model = asking()")
        begin(kernel)
        run_id = kernel.value("run.id")
        assert run_id in kernel.run(f"%agent answer {name(run_id)} green").printed
        assert ended_with(kernel) == "green"
    kernel.run("model = asking()")
    begin(kernel)
    short = kernel.value("run.id[-4:]")
    kernel.run(f"%agent answer {short} green")
    assert ended_with(kernel) == f"{short} green"


def test_id_of_an_ended_run_is_not_an_answer(kernel: Any) -> None:
    kernel.run("model = asking()")
    begin(kernel)
    over = kernel.value("run.id[-8:]")
    kernel.run(f"%agent answer {over} green")
    assert ended_with(kernel) == "green"
    kernel.run("model = asking()")
    begin(kernel)
    assert "is not waiting for an answer" in kernel.run(f"%agent answer {over} red").error
    kernel.run("%agent answer blue")
    assert ended_with(kernel) == "blue"


def test_question_can_be_declined_or_cancelled(kernel: Any) -> None:
    for word, expected in (("--decline", "declined to answer"), ("--cancel", "closed the question without deciding")):
        kernel.run("model = asking()")
        begin(kernel)
        assert "continues without an answer" in kernel.run(f"%agent answer {word}").printed
        assert expected in ended_with(kernel)


def test_choices_are_offered_and_other_answers_refused(kernel: Any) -> None:
    kernel.run("model = asking(options=['red', 'blue'])")
    begin(kernel)
    assert "It asks: Which {colour}? (red, blue)" in kernel.run("%agent status").printed
    offered = kernel.client.complete("%agent answer ", 14, reply=True, timeout=30)["content"]["matches"]
    assert {"--decline", "--cancel", "red", "blue"} <= set(offered)
    refused = kernel.run("%agent answer green")
    assert refused.status == "error" and "Please choose one of: red, blue" in refused.error
    asked = kernel.run("%agent answer")
    assert asked.status == "error" and "does not answer the question: Which {colour}?" in asked.error
    kernel.run("%agent answer RED")
    assert ended_with(kernel) == "red"


def test_number_is_read_as_a_number(kernel: Any) -> None:
    kernel.run("model = ScriptedModel([ToolCall('numbered'), last])")
    begin(kernel, "numbered")
    assert "Please enter a whole number" in kernel.run("%agent answer many").error
    kernel.run("%agent answer 3")
    assert ended_with(kernel) == "4 of them"


def test_answer_without_an_open_question_is_refused(kernel: Any) -> None:
    cell = kernel.run("%agent answer yes")
    assert cell.status == "error" and "No run is waiting for an answer" in cell.error
    assert "answer" in kernel.run("%agent help").printed
    assert "answer" in kernel.client.complete("%agent ans", 10, reply=True, timeout=30)["content"]["matches"]


def test_waiting_run_can_be_stopped(kernel: Any) -> None:
    kernel.run("model = asking()")
    begin(kernel)
    kernel.run("%agent stop")
    kernel.wait_for("run.status == 'cancelled'")
    assert kernel.value("run.waiting, run.rounds[0].results[0].error_code") == "((), 'cancelled')"
