"""Task files in a shell: the same commands as for workflows."""

from __future__ import annotations

from shell_calls import Call, last_run, lines_of, module, written

TOOLS = """
def fetch(station: str, query: str) -> str:
    '''Fetches.'''
    return f"{station}: {query}"
"""
TASKS = """
init: {station: brest}
stage:
  main:
    fetch:
      action: fetch
      input: {station: "${station}", query: "${query}"}
"""


def test_prompt_becomes_the_query_and_giving_both_is_refused(cli: Call) -> None:
    path, tools = written("tides.yaml", TASKS), ("--tools", f"{module(TOOLS)}:fetch")
    assert cli("exec", path, *tools, "When?")[:2] == (0, "brest: When?\n")
    assert cli("exec", path, *tools, "-i", '{"query": "Why?", "station": "cork"}').out == "cork: Why?\n"
    assert last_run().prompt == "Why?"
    both = cli("exec", path, *tools, "When?", "-i", '{"query": "Why?"}')
    assert both.code == 2 and "both were given" in both.err


def test_undeclared_inputs_of_a_task_file_may_be_passed(cli: Call) -> None:
    path = written("tides.yaml", TASKS.replace("${station}", "${place}"))
    tools = ("--tools", f"{module(TOOLS)}:fetch")
    assert cli("exec", path, *tools, "When?", "-i", '{"place": "vigo"}').out == "vigo: When?\n"
    assert cli("exec", path, *tools, "When?").code == cli("validate", path).code == 2
    assert "tides.yaml: a valid task file" in cli("validate", path, "-i", '{"place": "vigo"}').out


def test_template_is_read_from_a_file(cli: Call) -> None:
    path = written("tides.yaml", TASKS.replace("${station}", "${promptTemplate}"))
    written("plan.md", "Plan")
    tools = ("--tools", f"{module(TOOLS)}:fetch")
    assert cli("exec", path, *tools, "--prompt-template", "plan.md", "it").out == "Plan: it\n"
    assert cli("exec", path, *tools, "--prompt-template", "none.md", "it").code == 2


def test_task_file_problems_have_line_numbers_even_when_nested(cli: Call) -> None:
    written("tasks.yaml", TASKS.replace("action:", "actoin:"))
    done = cli("validate", "tasks.yaml")
    assert done.code == 2 and lines_of(done, "tasks.yaml") and "tasks.yaml: 2 problems" in done.out
    top = written("top.yaml", "workflow:\n  - {type: workflow, file: tasks.yaml, inputs: {query: Why?}}\n")
    done = cli("validate", top)
    assert done.code == 2 and lines_of(done, "top.yaml") == [2] and "tasks.yaml:" in done.out
    written("tasks.yaml", TASKS)
    assert cli("exec", top, "--tools", f"{module(TOOLS)}:fetch").out == "brest: Why?\n"
