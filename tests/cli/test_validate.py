"""``agentnb validate``: all problems of a file, and its kind."""

from __future__ import annotations

import pytest
from shell_calls import EXAMPLES, RUNS, Call, lines_of, module, written

from agentnb.advice import in_words
from agentnb.cli.shell_commands import SHELL
from agentnb.runtime.event_log import FREE_DISK

WARNS = """agents: {judge: {instruction: Judge.}}
workflow:
  - {id: qa, type: agent, name: judge}
  - {type: condition, condition: "{{ $steps.qa.output.ok }}", true: {goto: end}}
"""


def test_valid_file_is_reported_without_running_it(cli: Call) -> None:
    path = str(EXAMPLES / "qa-loop.yaml")
    assert cli("validate", path)[::2] == (0, "")
    assert f"{path}: a valid workflow" in cli("validate", path).out
    assert not RUNS.exists()


@pytest.mark.req("R4.4")
def test_each_problem_is_reported_with_file_and_line(cli: Call) -> None:
    text = "agents: {a: {instruction: Go., odd: 1}}\nworkflow:\n  - {type: agent, name: b}\n  - {type: loop}\n"
    done = cli("validate", written("w.yaml", text))
    assert (done.code, done.err) == (2, "") and lines_of(done, "w.yaml") == [1, 3, 4]
    assert done.out.endswith("w.yaml: 3 problems\n")


def test_warnings_are_reported_and_become_problems_with_strict(cli: Call) -> None:
    path = written("w.yaml", WARNS)
    done = cli("validate", path)
    assert done.code == 0 and lines_of(done, "w.yaml") == [4] and done.out.endswith("w.yaml: a valid workflow, 1 warning\n")
    done = cli("validate", path, "--strict")
    assert done.code == 2 and lines_of(done, "w.yaml") == [4] and done.out.endswith("w.yaml: 1 problem\n")


def test_tools_are_checked_if_given(cli: Call) -> None:
    path = written("t.yaml", "workflow:\n  - {type: tool, name: fetch}\n")
    done = cli("validate", path)
    assert done.code == 0 and "not checked: fetch. Give --tools MODULE:NAME\n" in done.out.splitlines(keepends=True)[-1]
    done = cli("validate", path, "--tools", f"{module('def look() -> str: ...')}:look")
    assert done.code == 2 and lines_of(done, "t.yaml") == [2] and "tools=" not in done.out


def test_actions_of_a_task_file_are_checked_with_tools(cli: Call) -> None:
    tools = f"{module('def tides_fetch() -> str: ...')}:tides_fetch"
    text = "stage:\n  one: {action: tides:fech, onError: {action: tides:fetch}}\n  two: {when: nothing}\n"
    path = written("t.yaml", text)
    top = written("top.yaml", "workflow:\n  - {type: workflow, file: t.yaml}\n")
    done = cli("validate", path, "--tools", tools)
    assert done.code == 2 and lines_of(done, "t.yaml") == [2, 3] and "Did you mean tides_fetch" in done.out
    written("t.yaml", text.replace("when: nothing", "when: 1 < 2"))
    done = cli("validate", top, "--tools", tools)
    assert done.code == 2 and lines_of(done, "top.yaml") == [2] and "there is neither an action tides:fech" in done.out
    for name in (path, top):
        assert "not checked: tides_fech, tides_fetch. Give --tools" in cli("validate", name).out
    written("t.yaml", "stage: {one: {action: tides:fetch}}\n")
    for name, kind in ((path, "task file"), (top, "workflow")):
        assert cli("validate", name, "--tools", tools).out == f"{name}: a valid {kind}\n"


def test_plan_files_are_recognized_by_any_of_their_keys(cli: Call, subtests: pytest.Subtests) -> None:
    for key in ("steps", "intention", "elicitation"):
        with subtests.test(key):
            done = cli("validate", written("p.yaml", f"{key}: odd\n" if key != "intention" else "intention: {}\n"))
            assert (done.code, done.err, {*lines_of(done, "p.yaml")}) == (2, "", {1}) and key in done.out
    assert cli("validate", "nowhere.yaml").code == 2
    done = cli("validate", written("odd.yaml", "tasks: []\n"))
    assert done.code == 2 and lines_of(done, "odd.yaml")


def test_hints_are_usable_in_a_shell(cli: Call) -> None:
    done = cli("validate", written("w.yaml", "workflow:\n  - {type: agent, name: judge}\n"))
    assert "Declare it under agents:" in done.out and "Python" not in done.out
    tasks = "stage: {main: {one: {action: tides:fetch}}}\n"
    done = cli("exec", written("w.yaml", tasks))
    assert done.code == 2 and "Pass it as a tool: --tools MODULE:tides_fetch" in done.err


def test_full_disk_message_in_a_shell_does_not_mention_cells() -> None:
    assert in_words([FREE_DISK], SHELL) == "Free some disk space"
