"""``%agent answer ID TEXT`` in a real kernel: an answer resumes a suspended run, in this kernel or another."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = '''
from agentnb import ToolCall
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask

wrote = []

def write(path: str) -> str:
    """Write a file."""
    wrote.append(path)
    return f"wrote {path}"

def careful(call, run):
    return Ask(f"May {call.name} run?") if call.name == "write" else None

def lax(call, run):
    return None
'''
PLAN = "- first `write('a')`\n"
BEGIN_ASKING = """
import time
from agentnb import Agent
asked = ToolCall("ask_person", {"question": "Which colour?"})
from agentnb.tools.ask_person import ask_person
live = Agent(ScriptedModel([asked, "Thank you."]), tools=[ask_person], todos=False).start("Ask.", show=False)
while not live.run.waiting:
    time.sleep(0.01)
"""
CELL = "%%agent -m simulated:disciplined -t write --gate careful --gate lax"


def suspended(kernel: Any) -> str:
    """The id of a run that has just been suspended, in a cell without a person."""
    cell = kernel.run(f"{CELL}\n{PLAN}")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.is_suspended, run.settings['gates'], wrote") == "(True, ['careful', 'lax'], [])"
    run_id = kernel.value("run.id")
    assert f"Answer: %agent answer {run_id[-8:]} TEXT" in cell.shown
    return str(run_id)


@pytest.mark.req("KX.5", "KX.11")
def test_answer_resumes_the_run_in_an_ordinary_cell(kernel: Any) -> None:
    run_id = suspended(kernel)
    assert f"%agent answer {run_id[-8:]} TEXT" in kernel.run("%agent status").printed
    assert "Answer a run that is waiting for you: %agent answer ID TEXT" in str(kernel.run("%agent history").listing)
    for line, words in {
        "": "The command does not answer the question: May write run?",
        " perhaps": "approve, deny",
    }.items():
        refused = kernel.run(f"%agent answer {run_id}{line}")
        assert refused.status == "error" and words in refused.error
    refused = kernel.run("%%agent --continue\nGo on.")
    assert f"is waiting for your answer. Answer it: %agent answer {run_id} TEXT" in refused.error
    cell = kernel.run(f"%agent answer {run_id[-8:]} approve")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.id, run.status, wrote") == f"('{run_id}', 'completed', ['a'])"
    assert kernel.run(f"%agent answer {run_id} approve").status == "error"
    kernel.run("wrote.clear()")


def test_single_suspended_run_needs_no_id_unless_another_waits(kernel: Any) -> None:
    run_id = suspended(kernel)
    for line, words in {"": "The command does not answer", " perhaps": "approve, deny", " approve it": "approve, deny"}.items():
        refused = kernel.run(f"%agent answer{line}")
        assert refused.status == "error" and words in refused.error and kernel.value("wrote") == "[]"
    kernel.run(BEGIN_ASKING)
    assert f"Run {kernel.value('live.run_id')} continues" in kernel.run(f"%agent answer {run_id[-4:]} green").printed
    assert kernel.value("live.result(30).rounds[0].results[0].text, wrote") == f"('{run_id[-4:]} green', [])"
    cell = kernel.run("%agent answer approve")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.id, run.status, wrote") == f"('{run_id}', 'completed', ['a'])"
    assert "No run is waiting for an answer" in kernel.run("%agent answer approve").error
    kernel.run("wrote.clear()")


def test_answer_needs_an_id_if_several_runs_wait(kernel: Any) -> None:
    kernel.run(f"{CELL} -o first\n{PLAN}")
    kernel.run("%%workflow -o second\nworkflow: [{id: ready, type: human, ask: 'Ready?', confirm: true}]")
    kernel.run("run, first_id, second_id = 'another', first.id, second.id")
    first, second = str(kernel.value("first_id")), str(kernel.value("second_id"))
    listed = f"%agent answer {second} approve\n  {second}: Ready?\n  {first} ({PLAN.strip()}): May write run?"
    for line, unknown in {"approve": "", "nope approve": "There is no waiting run 'nope'. "}.items():
        refused = kernel.run(f"%agent answer {line}")
        assert refused.status == "error"
        assert f"{unknown}2 runs are waiting for an answer. Name one: {listed}" in refused.error, refused.error
    for line in (f"%agent answer {first[-8:]} approve", f"%agent answer {second[-8:]} yes"):
        assert kernel.run(line).status == "ok"
    assert kernel.value("run, first.status, second.status, wrote") == "('another', 'completed', 'completed', ['a'])"
    kernel.run("wrote.clear()")
    kernel.run(f"{CELL} -o third\n{PLAN}")
    kernel.run("third_id, third = third.id, 'something else'")
    assert kernel.run("%agent answer approve").status == "ok"
    assert kernel.value("run.id == third_id, third, wrote") == "(True, 'something else', ['a'])"
    kernel.run("wrote.clear()")


UNSUSPENDED = """
log = Path(f'.agentnb/runs/{run.id}.jsonl')
lines = log.read_bytes().splitlines(keepends=True)
log.write_bytes(b''.join(line for line in lines if b'"kind":"run_suspended"' not in line))
"""


@pytest.mark.req("KX.5")
def test_run_that_died_at_a_gate_is_resumed_by_answering(kernel: Any) -> None:
    run_id = suspended(kernel)
    kernel.run(f"from pathlib import Path\n{UNSUSPENDED}")
    assert kernel.value("__import__('agentnb').load_trace(log).status") == "interrupted"
    cell = kernel.run(f"%agent answer {run_id[-8:]} approve")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.id, run.status, wrote") == f"('{run_id}', 'completed', ['a'])"
    kernel.run("wrote.clear()")


def test_answer_may_name_the_model_and_a_short_id(kernel: Any) -> None:
    kernel.run("other = ScriptedModel(['Another model read it.'] * 20)")
    run_id = suspended(kernel)
    assert "The command does not answer" in kernel.run(f"%agent answer …{run_id[-4:]} -m other").error
    assert "no_such is not defined" in kernel.run(f"%agent answer …{run_id[-4:]} -m no_such approve").error
    cell = kernel.run(f"%agent answer …{run_id[-4:]} -m other approve")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.id, run.text, wrote") == f"('{run_id}', 'Another model read it.', ['a'])"
    kernel.run("wrote.clear()")


def test_missing_gate_is_named_and_the_run_keeps_waiting(kernel: Any) -> None:
    run_id = suspended(kernel)
    kernel.run("kept = careful\nkept.__name__ = 'kept'\ndel careful")
    cell = kernel.run(f"%agent answer q1 {run_id}")
    assert cell.status == "error"
    cell = kernel.run(f"%agent answer {run_id} q1 deny: not now")
    assert cell.status == "error"
    assert "had the gate careful, not defined in this notebook. Define it, then: %agent answer" in cell.error
    kernel.run(SETUP)
    cell = kernel.run(f"%agent answer {run_id} q1 deny: not now")
    assert cell.status == "ok", cell.error
    assert kernel.value("wrote, [record.result.error_code for one in run.rounds for record in one.records]").startswith(
        "([], ["
    )
    assert "not now" in kernel.value("str(run.events)")


def test_gate_that_is_not_a_function_is_refused(kernel: Any) -> None:
    for name, words in {"nothing": "There is no variable 'nothing'", "data": "The variable data holds a dict"}.items():
        cell = kernel.run(f"%%agent --gate {name}\nGo.")
        assert cell.status == "error" and f"--gate {name}: {words}" in cell.error
