"""``%%agent`` in a real kernel."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asserted_sentences import Snapshot
from package_paths import OWN_FRAMES

PLAN = "- first `add(1)`\n- second `add(a=3, b=4)`\n"


def test_cell_blocks_until_the_end_and_sets_run_and_answer(kernel: Any) -> None:
    cell = kernel.run(f"%%agent -t add\n{PLAN}")
    assert cell.status == "ok"
    assert cell.result == {} and "2 steps, 2 tool calls" in cell.shown  # the card has the answer; nothing else is shown
    assert "2 steps, 2 tool calls" in kernel.run("_").result["text/plain"]
    assert kernel.value("run.status, run.stop_reason, len(run.rounds)") == "('completed', 'natural', 5)"
    assert kernel.value("Out[max(Out)] == run.text, type(run).__name__") == "(True, 'Run')"


def test_stand_in_model_is_announced_once(kernel: Any) -> None:
    kernel.run("%reload_ext agentnb")
    first, second = kernel.run("%%agent\nhello"), kernel.run("%%agent\nhello")
    assert "Using simulated:disciplined" in first.printed and "%agent key anthropic" in first.printed
    assert first.printed.strip().count("\n") == 0
    assert second.printed == ""


def test_run_is_shown_in_one_display_that_is_updated(kernel: Any) -> None:
    cell = kernel.run(f"%%agent -t add -m simulated:disciplined?delay=0.02\n{PLAN}")
    kinds = [output["type"] for output in cell.outputs if output["type"] in ("display_data", "update_display_data")]
    assert kinds[0] == "display_data" and set(kinds[1:]) == {"update_display_data"}
    names = {
        output["transient"]["display_id"]
        for output in cell.outputs
        if "data" in output and "agentnb-run" in output["data"].get("text/html", "")
    }
    assert len(names) == 1
    assert any("Step 1" in bundle["text/html"] and "Thinking" in bundle["text/html"] for bundle in cell.displays[:-1])
    assert cell.shown.startswith("Done, not checked: 5 rounds, 2 tool calls and 4 todo updates, 2 of 2 todos")


def test_many_small_deltas_become_few_updates(kernel: Any) -> None:
    words = " ".join(["word"] * 3000)
    kernel.run(f"from agentnb.models import ScriptedModel\ntalker = ScriptedModel(['{words}'])")
    cell = kernel.run("%%agent -m talker\nTalk.")
    assert cell.status == "ok"
    assert len(cell.displays) < 100
    assert kernel.value("run.text.count('word')") == "3000"


def test_out_option_names_the_variable(kernel: Any) -> None:
    kernel.run("run = 'mine'")
    kernel.run("%%agent -o other\nhello")
    assert kernel.value("run, other.status") == "('mine', 'completed')"


def test_blank_cell_is_an_error_without_a_model_call(kernel: Any) -> None:
    for body in ("", "\n", "\n   \n"):
        kernel.run("run = 'mine'")
        cell = kernel.run(f"%%agent -t add{body}")
        assert cell.status == "error"
        assert cell.error == "SettingsError: This cell has no task. Write what the agent should do below the %%agent line"
        assert kernel.value("run") == "mine"


def test_continue_option_extends_the_conversation(kernel: Any) -> None:
    kernel.run(f"%%agent -t add --max-rounds 1\n{PLAN}")
    assert kernel.value("run.status, run.stop_reason") == "('limited', 'max_rounds')"
    cell = kernel.run("%%agent -t add --continue\nGo on.")
    assert cell.status == "ok"
    assert kernel.value("run.messages[0].text.strip()") == PLAN.strip()
    assert "add: 7" in kernel.value("run.text")


def test_continue_option_needs_no_text(kernel: Any) -> None:
    kernel.run(f"%%agent -t add --max-rounds 1\n{PLAN}")
    assert kernel.run("%%agent -t add --continue\n").status == "ok"
    assert kernel.value("[message.text for message in run.messages if message.role == 'user'][-1]") == "Please continue"


def test_reached_limit_is_not_an_error_and_suggests_continuing(kernel: Any) -> None:
    cell = kernel.run(f"%%agent -t add --max-rounds 1\n{PLAN}")
    assert cell.status == "ok"
    assert "Limit reached: 1 round" in cell.shown and "--continue" in cell.shown


def test_dry_run_shows_the_request_without_sending_it(kernel: Any) -> None:
    kernel.run("run, x = 'mine', {'a': [1, 2]}")
    cell = kernel.run('%%agent --dry -t add\nLook at {{ x["a"][1] }}, {x} and {{x}}.')
    assert "Look at 2, {x} and {{x}}." in cell.printed
    assert "Nothing was sent" in cell.printed and "tokens" in cell.printed and "Add two numbers." in cell.printed
    assert '"required"' in cell.printed
    assert kernel.value("run") == "mine"


def test_raw_option_sends_the_text_verbatim(kernel: Any) -> None:
    kernel.run("%%agent --raw\nLook at {{ nothing }}.")
    assert kernel.value("run.prompt") == "Look at {{ nothing }}."


def test_context_option_names_the_kind_of_task(kernel: Any) -> None:
    kernel.run("%%agent --context project\nLook.")
    assert kernel.value("run.context_type") == "project"
    kernel.run("%%agent\nLook.")
    assert kernel.value("run.context_type") == ""


def test_mistake_raises_a_one_line_error_with_a_suggestion(kernel: Any, subtests: pytest.Subtests) -> None:
    for cell, says in [
        ("%%agent -m simulatd:disciplined\nhi", "Did you mean simulated:disciplined"),
        ("%%agent -m simulated:forgetfull\nhi", "no persona 'forgetfull'"),
        ("%%agent -m anthropic:claude\nhi", "ANTHROPIC_API_KEY is not set"),
        ("%%agent -t ad\nhi", "no tool 'ad' in this notebook. Did you mean add?"),
        ("%%agent --backgroud\nhi", "--background"),
        ("%%agent --max-rounds many\nhi", "invalid int value: 'many'"),
        ("%%agent --max-rounds 0\nhi", "from 1 to 1,000"),
        ("%%agent -o 1x\nhi", "is not a valid variable name"),
        ("%%agent -g matrx\nhi", "no guidance set 'matrx'. Did you mean matrix?"),
        ("%%agent -p minimum\nhi", "no policy 'minimum'. Did you mean minimal?"),
        ("%%agent -p minimal --workflow-mode\nhi", "has no workflow mode"),
        ("%%agent\n{{ ad }} hi", "the variable 'ad' is not defined. Did you mean add?"),
        ("%agent histroy", "Did you mean history"),
        ("%agent recover x", "no run 'x'"),
        ("%agent load nothing", "no run 'nothing'"),
        ('%agent tools "add', "No closing quotation"),
        ('%%agent -t "add\nhi', "No closing quotation"),
        ("%%agent Do this\nhi", "The text goes below"),
        ("%%agent add\nhi", "Unrecognized arguments: add. To add it as a tool: -t add. The text goes below"),
        ("%%agent --bogus\nhi", "Unrecognized arguments: --bogus. %%agent? shows the options"),
        ("%%agent -o for\nhi", "is not a valid variable name"),
        ("%agent stop nothing", "No live runs match 'nothing'. Nothing is running"),
        ("%replay complex-fail", "Did you mean complex-fails"),
        ("%replay healthy -g matrx", "no guidance set 'matrx'. Did you mean matrix?"),
        ("%replay healthy --max-rounds 0", "from 1 to 1,000"),
        ("%%agent -t data\nhi", "`data` is a dict, not a tool. Pass a function"),
        ("%agent defaults modell=x", "Did you mean model?"),
        ("%agent stop", "Nothing is running"),
    ]:
        with subtests.test(cell):
            done = kernel.run(cell)
            assert done.status == "error"
            assert says in done.error
            assert "\n" not in done.error and "Traceback" not in done.error


def test_key_without_a_model_suggests_one_and_stays_hidden(kernel: Any) -> None:
    kernel.run("import os; os.environ['OPENAI_API_KEY'] = 'sk-secret-123'")
    cell = kernel.run("%%agent\nhello")
    kernel.run("del os.environ['OPENAI_API_KEY']")
    assert cell.status == "error" and "-m openai:NAME" in cell.error
    assert "secret" not in json.dumps(cell.outputs)


def test_failing_model_raises_and_the_run_is_kept(kernel: Any, snapshot: Snapshot) -> None:
    kernel.run("from agentnb.models import ScriptedModel\nfrom agentnb import ToolCall")
    kernel.run("failing = ScriptedModel([ToolCall('add', {'a': 1}), RuntimeError('boom')])")
    cell = kernel.run("%%agent -m failing -t add\nGo.")
    assert cell.status == "error"
    # nbconvert prints only this line; the card has it too.
    assert cell.error == snapshot
    assert cell.shown.count("boom") == 1
    reasons = [output["evalue"] for output in cell.outputs if output["type"] == "error"]
    assert ["boom" in reason for reason in reasons] == [True], "programs that run notebooks report it in full"
    assert kernel.value("run.status, run.rounds[0].results[0].text") == "('failed', '3')"


def test_tool_exception_reaches_the_model_with_a_user_traceback(kernel: Any) -> None:
    cell = kernel.run("%%agent -t broken add\n- fail `broken(1)`\n- go on `add(1)`")
    assert cell.status == "ok"
    work = "[result for one in run.rounds for result in one.results if result.name != 'todo_operations']"
    assert kernel.value(f"[result.is_error for result in {work}]") == "[True, False]"
    html = cell.displays[-1]["text/html"]
    assert "ZeroDivisionError" in html and "1 // 0" in html
    assert OWN_FRAMES not in html and "dispatch" not in html


@pytest.mark.parametrize("what", ["a sync tool", "a streaming reply", "an async tool"])
def test_interrupt_ends_the_run_cleanly(kernel: Any, what: str) -> None:
    kernel.run(
        "import asyncio\nasync def wait(seconds: float) -> str:\n"
        "    'Wait.'\n    await asyncio.sleep(seconds)\n    return 'waited'"
    )
    cells = {
        "a sync tool": ("%%agent -t nap add\n- sleep `nap(50)`\n- add `add(1)`", "Running nap"),
        "an async tool": ("%%agent -t wait add\n- wait `wait(50)`\n- add `add(1)`", "Running wait"),
        "a streaming reply": ("%%agent -m simulated:disciplined?delay=5\nhello", "Thinking"),
    }
    code, waiting_for = cells[what]
    cell = kernel.run(code, interrupt_when=lambda cell: waiting_for in cell.shown)
    assert cell.status == "error" and cell.error.startswith("KeyboardInterrupt: the run was stopped")
    assert "Traceback" not in cell.error
    assert kernel.value("run.status, [len(one.calls) == len(one.results) for one in run.rounds]").startswith(
        "('cancelled', [True"
    )
    assert kernel.value("__import__('agentnb').load_trace(f'.agentnb/runs/{run.id}.jsonl') == run") == "True"
    session = "get_ipython()._agentnb_session"
    tasks = f"__import__('asyncio').all_tasks({session}._threads['foreground']._loop)"
    assert kernel.value(f"len({tasks})") == "0"
    following = kernel.run("%%agent -t add\n- add `add(1)`")
    assert following.status == "ok" and "add: 3" in following.shown


def test_sync_tools_run_on_the_main_thread_with_notebook_variables(kernel: Any) -> None:
    kernel.run(
        "import threading\nseen = []\ndef look() -> str:\n    'Look.'\n"
        "    seen.append(threading.current_thread() is threading.main_thread())\n    globals()['made'] = 1\n    return 'ok'"
    )
    kernel.run("%%agent -t look\n- `look()`")
    assert kernel.value("seen, made") == "([True], 1)"


def test_tool_displays_appear_in_the_cell_and_prints_at_calls(kernel: Any) -> None:
    kernel.run(
        "def draw(n: int) -> str:\n    'Draw.'\n    import matplotlib.pyplot as plt\n    plt.plot(range(n))\n    plt.show()\n"
        "    display('a display')\n    print('a print')\n    return 'drawn'\n"
        "from agentnb import tool\n@tool(parallel_safe=True)\ndef tell(i: int) -> str:\n"
        "    'Tell.'\n    print('told', i)\n    return 'told'"
    )
    cell = kernel.run("%%agent -t draw tell\n- `draw(3)`\n- `tell(1)` and `tell(2)`")
    assert any("image/png" in output.get("data", {}) for output in cell.outputs)
    assert any("a display" in output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    assert cell.printed == "" and all(f"| {text}" in cell.shown for text in ("a print", "told 1", "told 2"))


def test_returned_figure_is_shown_once(kernel: Any) -> None:
    kernel.run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nfrom agentnb import Agent, ToolCall\n"
        "from agentnb.models import ScriptedModel\ndef draw() -> plt.Figure:\n    'Draw.'\n    figure, axes = plt.subplots()\n"
        "    axes.plot([1, 3, 2])\n    return figure"
    )
    cell = kernel.run("%%agent -t draw\n- `draw()`")
    assert "data:image/png" in cell.displays[-1]["text/html"]
    assert [output for output in cell.outputs if "image/png" in output.get("data", {})] == []
    own = "plt.plot([1, 2])\nawait Agent(ScriptedModel([ToolCall('draw', {}), 'Drawn.']), [draw]).run('Draw.')\nNone"
    assert len([output for output in kernel.run(own).outputs if "image/png" in output.get("data", {})]) == 1


def test_unreplaced_braces_are_reported_before_the_run(kernel: Any, snapshot: Snapshot) -> None:
    cell = kernel.run("%%agent\nLook at {{data}} and {{ their_template.thing }}.")
    assert cell.status == "ok" and kernel.value("run.prompt") == snapshot
    assert cell.printed.splitlines()[0] == snapshot
    assert "sent as typed" in kernel.run("%%agent --dry\nLook at {{data}}.").printed
    assert kernel.run("%%agent --raw\nLook at {{data}}.").printed == ""


def test_background_run_returns_at_once_and_can_be_steered(kernel: Any) -> None:
    cell = kernel.run(f"%%agent --background -t add -m simulated:disciplined?delay=0.05\n{PLAN}")
    assert cell.status == "ok" and cell.printed == ""
    assert kernel.run("%agent status").printed.strip() != ""
    assert kernel.run("%agent pause").status == "ok"
    assert kernel.run("%agent resume").status == "ok"
    assert kernel.run("%agent say Thank you").status == "ok"
    assert kernel.run("%agent stop").status == "ok"
    kernel.run("import time\nwhile run.should_continue: time.sleep(0.01)")
    assert kernel.value("run.status") == "cancelled"
    commands = kernel.value("[event.command for event in run.events if type(event).__name__ == 'CommandReceived']")
    assert commands == "['pause', 'resume', 'say', 'stop']"


def test_run_all_stops_at_a_failing_cell(kernel: Any) -> None:
    """The reply has the status error, which nbclient and papermill check."""
    assert kernel.run("%%agent -t nothing\nhi").status == "error"


def test_hostile_text_is_never_rendered_as_markup(kernel: Any) -> None:
    kernel.run(
        "bad = '<script>alert(1)</script><img src=x onerror=alert(1)>\\x1b[31m\\u202e'\n"
        "def evil() -> str:\n    'Evil.'\n    return bad\n"
        "speaker = ScriptedModel([[bad, ToolCall('evil')], bad])"
    )
    cell = kernel.run("%%agent -m speaker -t evil\nGo.")
    for bundle in cell.displays:
        assert "<script" not in bundle["text/html"] and "<img" not in bundle["text/html"]
        for text in bundle.values():
            assert "\x1b" not in text and "\u202e" not in text


def test_history_lists_runs_and_load_restores_one(kernel: Any) -> None:
    kernel.run("%%agent -o known\nhello there")
    listing = kernel.run("%agent history").listing["text/plain"]
    assert kernel.value("known.id") in listing and "hello there" in listing and "Done" in listing
    cell = kernel.run(f"%agent load {kernel.value('known.id')}")
    assert cell.status == "ok" and kernel.value("run == known") == "True"
    assert "agentnb-run" in cell.result["text/html"]
    kernel.run("%%agent --continue\nAnd now?")
    assert kernel.value("run.continued_from == known.id") == "True"


def test_shown_run_names_its_variable_in_commands(kernel: Any) -> None:
    kernel.run("from agentnb import Agent, ToolCall\nfrom agentnb.models import ScriptedModel")
    kernel.run("agent = Agent(ScriptedModel([ToolCall('x', {})], repeat=True), max_rounds=1, guidance='off')")
    kernel.run("mine = agent.run_sync('Go.', show=False)")
    assert "replay(mine, guidance=" in kernel.run("mine").result["text/html"]
    assert "replay(run, guidance=" in kernel.run("run = mine\nrun").result["text/html"]
    assert "replay(RUN, guidance=" in kernel.run("agent.run_sync('Go.', show=False)").result["text/html"]


def test_tools_command_shows_schema_and_docstring_gaps(kernel: Any) -> None:
    printed = kernel.run("%agent tools add").printed
    assert '"description": "the first"' in printed and "Missing: b is not described in the docstring" in printed
    assert {"add", "nap", "broken"} <= set(kernel.run("%agent tools").printed.split())


def test_defaults_are_shown_and_set(kernel: Any) -> None:
    assert kernel.run("%agent defaults max-rounds=1").printed.count("max-rounds=1") == 1
    kernel.run(f"%%agent -t add\n{PLAN}")
    assert kernel.value("run.stop_reason") == "max_rounds"
    kernel.run("%agent defaults max-rounds=50")


def test_environment_variable_names_the_model(kernel: Any) -> None:
    kernel.run("os.environ['AGENTNB_MODEL'] = 'simulated:disciplined?delay=0.001'")
    kernel.run("%%agent\nhello")
    kernel.run("del os.environ['AGENTNB_MODEL']")
    assert kernel.value("run.model") == "simulated:disciplined?delay=0.001"


def test_dry_run_shows_request_options_and_needs_no_key(kernel: Any) -> None:
    printed = kernel.run("%%agent --dry -t add -m anthropic:m?effort=low&max_tokens=99\nHi").printed
    besides = printed.partition("--- other fields ---")[2].split()
    assert {"max_tokens=99", "stream=true", 'output_config={"effort":"low"}'} <= set(besides)
    assert "todo_operations:" in printed and "newTodos" not in printed, "the built-in tool takes one line"
    assert "--- other fields ---" not in kernel.run("%%agent --dry -m simulated:chatty\nHi").printed


def test_quotation_marks_around_a_model_name_are_removed(kernel: Any) -> None:
    assert kernel.run('%%agent -m "simulated:chatty"\nHi').status == "ok"
    assert kernel.value("run.model") == "simulated:chatty"


def test_key_in_a_command_is_never_repeated(kernel: Any, subtests: pytest.Subtests) -> None:
    for line in ["-m anthropic:m --key {}", "-k {}", "{}", "ANTHROPIC_API_KEY={}", "-m anthropic:{}", "-m {}"]:
        with subtests.test(line):
            secret = "sk-ant-" + "api03-Really-Secret12"
            cell = kernel.run(f"%%agent {line.format(secret)}\nHi")
            assert cell.status == "error"
            shown = [output for output in cell.outputs if output["type"] != "execute_input"]
            assert "Secret12" not in str(shown) and "Secret12" not in cell.error


def test_variable_without_a_model_is_refused_with_suggestions(kernel: Any) -> None:
    kernel.run("from agentnb.models import ScriptedModel\nquick = ScriptedModel([])\nnumber = 5")
    assert "Did you mean quick?" in kernel.run("%%agent -m quickk\nHi").error
    assert "The variable number is of type int, not a model" in kernel.run("%%agent -m number\nHi").error
