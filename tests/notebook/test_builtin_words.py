"""Built-in tools in cells: ``-t files``, ``%agent tools``, defaults of their groups, in a real kernel."""

from __future__ import annotations

from typing import Any

CELL = "%%agent -m simulated:disciplined -t {tools} -o out\n- read it `{call}`"
RESULTS = "[result.text for each in out.rounds for result in each.results if result.name != 'todo_operations']"


def test_cell_can_name_builtin_tools_and_functions(kernel: Any) -> None:
    kernel.run("open('notes.txt', 'w').write('low water')\nfiles = ['a.csv', 'b.csv']")
    assert kernel.run(CELL.format(tools="files ask_person think", call='read_file("notes.txt")')).status == "ok"
    assert kernel.value(RESULTS) == "['low water']"


def test_variable_with_a_tool_overrides_a_builtin_name(kernel: Any) -> None:
    kernel.run("def read_file(path: str) -> str:\n    '''Mine.'''\n    return 'mine'\nweb = [read_file]")
    for word in ("read_file", "web"):
        assert kernel.run(CELL.format(tools=word, call='read_file("notes.txt")')).status == "ok"
        assert kernel.value(RESULTS) == "['mine']"
    refused = kernel.run(CELL.format(tools="read_file files", call='read_file("notes.txt")'))
    assert refused.status == "error" and "already registered" in refused.error
    kernel.run("del read_file, web")


def test_unknown_name_suggests_similar_ones(kernel: Any) -> None:
    refused = kernel.run(CELL.format(tools="fils", call='read_file("notes.txt")'))
    assert refused.status == "error" and "files" in refused.error


def test_tools_are_listed_and_shown(kernel: Any) -> None:
    assert "Built in: files, shell, git, github, web, notebook, ask_person" in kernel.run("%agent tools").printed
    shown = kernel.run("%agent tools shell read_file").printed
    assert "bash" in shown and "read_file" in shown and "Missing" not in shown


def test_defaults_set_the_sandbox_and_the_repository(kernel: Any) -> None:
    kernel.run("%agent defaults sandbox=bwrap repo=harbour/tides")
    groups = "ip = get_ipython(); from agentnb.notebook.variable_names import find_tools"
    kernel.run(f"{groups}\nfrom agentnb.notebook.ipython_extension import session_of\nsession = session_of(ip)")
    made = "[tool.group for tool in find_tools(['bash', 'github_get_issue'], {}, session.tool_groups())]"
    assert kernel.value(f"str({made})").count("bwrap") == 1 and "harbour/tides" in kernel.value(f"str({made})")
    for wrong in ("sandbox=docker", "repo=tides"):
        assert kernel.run(f"%agent defaults {wrong}").status == "error"
    kernel.run("%agent defaults sandbox= repo=")
    assert kernel.value("session.tool_groups()") == "{}"


def test_workflows_can_name_builtin_tools(kernel: Any) -> None:
    kernel.run("open('notes.txt', 'w').write('low water')")
    cell = "%%workflow -o out\nworkflow:\n  - {type: tool, name: read_file, args: {path: notes.txt}}"
    assert kernel.run(cell).status == "ok"
    assert kernel.value("out.text") == "low water"
