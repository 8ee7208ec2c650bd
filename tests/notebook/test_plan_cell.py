"""``%%plan`` in a real kernel, and task files that plan in ``%%workflow``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from real_kernel import Kernel

PLANS = Path(__file__).parents[1] / "workflow" / "examples" / "plans"
SETUP = '''
import agentnb
from agentnb.models import ScriptedModel

def tides_fetch(station: str, day: str = "") -> dict:
    """Fetch the tide table of a station."""
    return {"station": station, "rows": [["04:12", 6.1]]}

def tables_compare(left: list, right: list, options: dict | None = None) -> str:
    """Compare two tide tables."""
    return f"{len(left)} and {len(right)}"
'''
SIMPLE = "intention: Look\nsteps:\n- {name: tides.fetch, args: {station: brest}}\n"
WRONG = "steps:\n- {name: tides.fetsch}\n- {name: tides_fetch, args: {station: 7}}\n- {type: sleep}\n"


@pytest.mark.req("R1.51")
def test_plan_in_either_format_is_shown_kept_and_run(kernel: Kernel, subtests: pytest.Subtests) -> None:
    for name in ("plan.yaml", "plan.json"):
        with subtests.test(name):
            body = (PLANS / name).read_text(encoding="utf-8")
            cell = kernel.run(f"%%plan -o tides -t tides_fetch tables_compare\n{body}")
            assert cell.status == "ok", cell.error
            text = cell.result["text/plain"]
            assert "Compare the tides of two harbours" in text and 'tides_fetch(station="brest")' in text
            assert "await tides.run(tools=[tides_fetch, tables_compare])" in text
            assert "agentnb-step-line" in cell.result["text/html"] and "tables_compare" in cell.result["text/html"]
            ran = kernel.run("ran = await tides.run(tools=[tides_fetch, tables_compare], show=False)")
            assert ran.status == "ok", ran.error
            assert kernel.value("ran.text") == "1 and 1"
    kernel.run(f"%%plan\n{SIMPLE}")
    assert kernel.value("plan.intention") == "Look", "without -o"
    kernel.run(f"%%plan -o pasted\nHere it is:\n```yaml\n{SIMPLE}```")
    assert kernel.value("pasted.steps[0].reason") == "Here it is:"
    chat = kernel.run(f"%%plan\n{(PLANS / 'plan-chat.json').read_text(encoding='utf-8')}")
    assert "Find the hours" in chat.result["text/plain"] and kernel.value("plan.form") == "chat"


@pytest.mark.req("R1.51")
def test_plan_problems_give_cell_lines_and_keep_the_variable(kernel: Kernel, subtests: pytest.Subtests) -> None:
    kernel.run(f"%%plan -o kept\n{SIMPLE}")
    before = kernel.value("id(kept), agentnb.Plan.read(kept.to_dict()) == kept")
    for options, lines in (("-t tides_fetch", [3, 4, 5]), ("", [5])):
        for blank in ("", "\n\n"):
            with subtests.test(options + repr(blank)):
                cell = kernel.run(f"%%plan -o kept {options}\n{blank}{WRONG}")
                assert cell.status == "error" and "Traceback" not in cell.error
                line_numbers = [int(match) for match in re.findall(r"line (\d+): ", cell.error)]
                assert line_numbers == [line + len(blank) for line in lines], cell.error
    assert kernel.value("id(kept), agentnb.Plan.read(kept.to_dict()) == kept") == before


def test_unusable_plan_is_refused_in_one_line(kernel: Kernel, subtests: pytest.Subtests) -> None:
    for cell, says in {
        "%%plan": "This cell has no plan",
        "%%plan -o mine\n \n": "This cell has no plan",
        "%%plan\nsteps: [": "line 2",
        "%%plan\n- fetch": "must be a mapping",
        "%%plan\nworkflow: []": "workflow",
        "%%plan\na: !!python/object/apply:os.system ['true']": "line 2",
        f"%%plan -o 1x\n{SIMPLE}": "not a valid variable name",
        f"%%plan -t tides_fetsch\n{SIMPLE}": "Did you mean tides_fetch",
        f"%%plan --tool\n{SIMPLE}": "--tool",
        f"%%plan Look\n{SIMPLE}": "Unrecognized arguments: Look",
    }.items():
        with subtests.test(cell):
            done = kernel.run(cell)
            assert done.status == "error" and says in done.error and "Traceback" not in done.error


def test_plan_uses_the_named_tools(kernel: Kernel) -> None:
    text = "steps: [{name: read_file, args: {path: 7}}]\n"
    assert kernel.run(f"%%plan\n{text}").status == "ok"
    for tools in ("tides_fetch", "files", "read_file"):
        assert "line 2: step 0: read_file: path" in kernel.run(f"%%plan -t {tools}\n{text}").error


def test_unloading_removes_the_magic_and_its_display(kernel: Kernel) -> None:
    assert kernel.value("'plan' in get_ipython().magics_manager.magics['cell']") == "True"
    kernel.run("%unload_ext agentnb")
    assert kernel.value("'plan' in get_ipython().magics_manager.magics['cell']") == "False"
    assert kernel.value("agentnb.Plan in get_ipython().display_formatter.formatters['text/html'].type_printers") == "False"
    assert kernel.run("%load_ext agentnb").status == "ok"


@pytest.mark.req("R1.1")
def test_workflow_cell_runs_a_task_file_that_plans(kernel: Kernel, subtests: pytest.Subtests) -> None:
    text = (Path(__file__).parents[2] / "agentnb/workflow/plans/planner.yaml").read_text(encoding="utf-8")
    plan = json.dumps({"steps": [{"name": "tides.fetch", "args": {"station": "brest"}}]})
    kernel.run(f"planner_model = ScriptedModel([{plan!r}, 'Low water at 04:12.'])")
    cell = kernel.run(f"%%workflow -m planner_model -t tides_fetch --prompt 'When?'\n{text}")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.text, len(run.plans)") == "('Low water at 04:12.', 2)"
    for options, says in {
        '-i \'{"tools": ["nope"]}\'': "there is no tool nope",
        '-i \'{"promptTemplate": "#foreach"}\'': "#foreach",
    }.items():
        with subtests.test(says):
            kernel.run("run = 'mine'")
            cell = kernel.run(f"%%workflow -m planner_model -t tides_fetch --prompt 'When?' {options}\n{text}")
            assert cell.status == "error" and says in cell.error and kernel.value("run") == "mine", cell.error
    wrong = kernel.run(f"%%workflow -t tides_fetch --prompt 'When?'\n{text.replace('llm/core:plan', 'llm/core:plam')}")
    assert wrong.status == "error" and "llm/core:plan" in wrong.error
