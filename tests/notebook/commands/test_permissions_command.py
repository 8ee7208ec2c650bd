"""``%agent permissions``, ``--rule`` and ``%agent defaults approve=``, in a real kernel."""

from __future__ import annotations

from typing import Any

import pytest
from pretend_browser import Browser

SETUP = '''
from agentnb import tool
done = []

@tool(effects=["execute"], command="command")
def bash(command: str) -> str:
    """Run a command."""
    done.append(command)
    return "ran"

def measure() -> str:
    """Measure."""
    done.append("measure")
    return "3"
'''
CELL = "%%agent -m simulated:disciplined -t bash measure {options}\n- first `bash('git status -s')`\n- second `measure()`"
WORKFLOW = "%%workflow -t bash {options}\nworkflow:\n  - {{type: tool, name: bash, args: {{command: git status -s}}}}"


@pytest.fixture(autouse=True)
def ready(kernel: Any) -> None:
    assert kernel.run(SETUP).status == "ok"


def test_always_granted_permissions_are_listed_and_withdrawn(kernel: Any) -> None:
    assert "Allowed always: nothing yet." in kernel.run("%agent permissions").printed
    assert kernel.run(CELL.format(options="--background"), attended=True).status == "ok"
    kernel.wait_for("run.status == 'waiting_on_user'")
    assert "continues with your answer" in kernel.run("%agent answer always in session").printed
    kernel.wait_for("not run.should_continue")
    listed = kernel.run("%agent permissions").printed
    assert "Tools that write, execute or use the network ask you." in listed
    assert "1  bash(git status *), until the kernel ends" in listed
    kernel.run("done.clear()")
    assert kernel.run(CELL.format(options="")).status == "ok"  # nobody is asked
    assert kernel.value("done, len(run.questions)") == "(['git status -s', 'measure'], 0)"
    assert "Allowed always: nothing yet." in kernel.run("%agent permissions withdraw 1").printed
    assert "2  measure" in kernel.run("%agent permissions allow bash(git log *)\n%agent permissions allow measure").printed
    withdrawn = kernel.run("%agent permissions withdraw measure").printed
    assert "Withdrawn: measure, until the kernel ends" in withdrawn and "2  measure" not in withdrawn
    kernel.run("%agent permissions withdraw bash(git log *)")
    for line, words in (
        ("withdraw bash", "'bash' is not an allowed rule"),
        ("withdraw 9", "9 is not in the list"),
        ("allow bsah(git *)", "Did you mean bash?"),
        ("permit bash", "has no command 'permit'"),
        ("deny bash", '%%agent --rule "bash=deny"'),
        ("ask bash", '%%agent --rule "bash=deny"'),
        ("allow", "needs a rule"),
        ("allow bash(", "Write the name of a tool, with a pattern in brackets"),
    ):
        assert words in kernel.run(f"%agent permissions {line}").error


def test_rules_and_grants_of_a_live_run_can_be_withdrawn(kernel: Any) -> None:
    options = '--background --rule "bash(git status *)=ask" --rule bash=deny --approve auto --rule measure=ask'
    cell = CELL.format(options=options.replace("--rule bash=deny ", ""))
    assert kernel.run(cell, attended=True).status == "ok"
    kernel.wait_for("run.status == 'waiting_on_user'")
    kernel.run("%agent answer always")
    kernel.wait_for("len(run.questions) == 2")
    listed = kernel.run("%agent permissions").printed
    for words in ("mode auto", "ask: bash(git status *)", "ask: measure", "1  bash(git status *), in run"):
        assert words in listed
    assert "Allowed always: nothing yet." in kernel.run("%agent permissions withdraw 1").printed
    kernel.wait_for("not run.grants")
    kernel.run("%agent answer deny")
    kernel.wait_for("not run.should_continue")


def test_rules_and_mode_apply_to_cells_defaults_and_python(kernel: Any, subtests: pytest.Subtests) -> None:
    for cell in (CELL, WORKFLOW):
        for options, runs in (
            ("--rule 'bash(git *)=allow'", True),
            ('--rule "bash=deny" --approve auto', False),
            ("--approve auto", True),
            ("--approve never", False),
        ):
            with subtests.test(f"{cell[:10]} {options}"):
                kernel.run("done.clear()")
                kernel.run(cell.format(options=options))
                assert (kernel.value("'git status -s' in done") == "True") == runs
    assert "is not a verdict" in kernel.run(CELL.format(options="--rule bash=maybe")).error
    assert kernel.run("%agent defaults approve=auto").status == "ok"
    kernel.run("done.clear()")
    kernel.run(CELL.format(options=""))
    code = "from agentnb.models import ScriptedModel\nfrom agentnb import Agent, ToolCall\n"
    code += "model = ScriptedModel([[ToolCall('bash', {'command': 'ls'})], 'Done.'])\n"
    kernel.run(f"{code}await Agent(model, tools=[bash]).run('go', show=False)")
    assert kernel.value("done") == "['git status -s', 'measure', 'ls']"
    assert "Mode: auto" in kernel.run("%agent permissions").printed
    assert "must be one of" in kernel.run("%agent defaults approve=free").error
    assert kernel.run("%agent defaults approve=").status == "ok"
    assert "Tools that write, execute or use the network ask you." in kernel.run("%agent permissions").printed


def test_cell_without_a_person_is_suspended_at_its_questions(kernel: Any) -> None:
    kernel.run("done.clear()")
    kernel.run(CELL.format(options="--rule 'bash(rm *)=deny'"))
    assert kernel.value("run.status, done") == "('waiting_on_user', [])"
    assert kernel.run("%agent answer approve").status == "ok"
    assert kernel.value("done") == "['git status -s', 'measure']"


LEAVES = """
import asyncio, contextvars
from agentnb import Agent, RunOptions, ToolCall
from agentnb.models import ScriptedModel
from agentnb.runtime.questions.model_code import running_cells
loop, seen = asyncio.get_running_loop(), []
code = '''
def between():
    if running_cells:
        loop.call_later(0.01, between, context=contextvars.Context())
    else:
        seen.append({act})
loop.call_soon(between, context=contextvars.Context())
'''
source = f"exec(compile({{code!r}}, 'my_module.py', 'exec'), get_ipython().user_ns)"
model = ScriptedModel([[ToolCall("run_python", {{"code": source}})], "Done."])
left = Agent(model, tools=["run_python"], guidance="off", todos=False).run_sync("go", RunOptions(approve="auto"))
"""
MADE = ", granted while none of your cells was running"


def left_between_cells(kernel: Any, act: str) -> None:
    """Let model code leave this act behind, under another name and without its context; wait until it is done."""
    left = kernel.run(LEAVES.format(act=act))
    assert left.status == "ok", left.error
    kernel.wait_for("seen == [None]")


def test_grant_made_between_cells_is_marked_as_such(kernel: Any, subtests: pytest.Subtests) -> None:
    in_session = "get_ipython()._agentnb_session.allow_always('bash', (bash,))"
    assert kernel.run(f"get_ipython().run_cell('1')\n{in_session}").status == "ok"
    with subtests.test("a cell, also after one within it"):
        assert MADE not in kernel.run("%agent permissions").printed
    kernel.run("%agent permissions withdraw 1")
    with subtests.test("a callback allows in the session"):
        left_between_cells(kernel, in_session)
        assert f"1  bash, until the kernel ends{MADE}" in kernel.run("%agent permissions").printed
    kernel.run("%agent permissions withdraw 1")
    browser = Browser(kernel)
    try:
        for reach in ("session", "run"):
            for who in ("callback", "click"):
                with subtests.test(who, reach=reach):
                    browser.start_card(CELL.format(options="--background --rule measure=ask"))
                    kernel.wait_for("run.status == 'waiting_on_user'")
                    answer = {"always": "bash(git status *)", "reach": reach}
                    if who == "click":
                        browser.greet()
                        question = kernel.value("run.waiting[0].id")
                        assert browser.ask(do="always", rule=answer["always"], reach=reach, key=question) == ""
                    else:
                        left_between_cells(kernel, f"get_ipython()._agentnb_session.current().answer({answer!r})")
                    kernel.wait_for("len(run.questions) == 2")  # the question about the second call keeps the run live
                    listed = kernel.run("%agent permissions").printed
                    length = "until the kernel ends" if reach == "session" else "in run "
                    assert f"1  bash(git status *), {length}" in listed and (MADE in listed) == (who == "callback"), listed
                    kernel.run("%agent permissions withdraw 1\n%agent answer deny")
                    kernel.wait_for("not run.should_continue")
    finally:
        browser.close()
