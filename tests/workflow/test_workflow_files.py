"""Nested files and Python arguments of a workflow are checked before it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentnb import Workflow
from agentnb.errors import SettingsError, WorkflowProblems

RUNS = "workflow:\n  - {{id: a, type: workflow, file: {}}}\n"


def problems(path: Path, **given: object) -> list[tuple[int, str]]:
    with pytest.raises(WorkflowProblems) as caught:
        Workflow.from_yaml(path, **given)  # type: ignore[arg-type]  # what a test gives
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_missing_file_is_a_problem_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "top.yaml"
    path.write_text("workflow:\n  - id: a\n    type: workflow\n    file: deep/none.yaml\n")
    ((line, message),) = problems(path)
    assert line == 4 and "workflow step[0]" in message and f"There is no file {tmp_path / 'deep' / 'none.yaml'}" in message


def test_impossible_file_name_is_a_problem(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    path, long = tmp_path / "top.yaml", f"{'x' * 5000}.yaml"
    for name, expected in {'"a\\0b.yaml"': "There is no file", "loop.yaml": "There is no file", long: "xxx"}.items():
        with subtests.test(name[:9]):
            path.write_text(RUNS.format(name))
            ((line, message),) = problems(path)
            assert line == 2 and "workflow step[0]: file: " in message and expected in message and len(message) < 500
    with pytest.raises(SettingsError, match="xxx cannot be read"):
        Workflow.from_yaml(long)


def test_file_that_includes_itself_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name, to in {"top.yaml": "sub/inner.yaml", "sub/inner.yaml": "../top.yaml", "self.yaml": "./self.yaml"}.items():
        (tmp_path / name).write_text(RUNS.format(to))
    ((line, message),) = problems(tmp_path / "top.yaml")
    assert line == 2 and "(top.yaml -> inner.yaml -> top.yaml)" in message
    assert "(self.yaml -> self.yaml)" in problems(tmp_path / "self.yaml")[0][1]


def test_problems_in_a_nested_file_are_reported_at_its_line(tmp_path: Path) -> None:
    inner, top = tmp_path / "inner.yaml", tmp_path / "top.yaml"
    inner.write_text("workflow:\n  - {type: agent, name: nobody}\n  - {type: loop}\n")
    top.write_text(RUNS.format("inner.yaml") + "  - {id: b, type: workflow, file: inner.yaml}\n")
    result = problems(top)
    assert [line for line, _ in result] == [2, 3]
    assert all(
        f'{inner}:2: workflow step[0]: agent "nobody" not found in agents, and 1 more' in problem for _, problem in result
    )
    inner.write_text("agents: {nobody: {replies: [Yes]}}\nworkflow:\n  - {type: agent, name: nobody}\n")
    run = Workflow.from_yaml(top).run_sync(show=False)
    assert [run.steps[name]["output"] for name in "ab"] == ["Yes", "Yes"]


def test_nested_inputs_and_prompt_may_use_step_outputs(tmp_path: Path) -> None:
    inner, top = tmp_path / "inner.yaml", tmp_path / "top.yaml"
    inner.write_text("inputs: {n: 1}\nworkflow:\n  - {type: tool, name: echo, args: {text: '{{ $prompt }} {{ $inputs.n }}'}}\n")
    given = "inputs: {n: '{{ $steps.e.output }}!'}, prompt: 'About {{ $prompt }}'"
    top.write_text(
        "workflow:\n  - {id: e, type: tool, name: echo, args: {text: high}}\n"
        f"  - {{id: own, type: workflow, file: inner.yaml, {given}}}\n  - {{id: same, type: workflow, file: inner.yaml}}\n"
    )

    def echo(text: str) -> str:
        """Say it again."""
        return text

    run = Workflow.from_yaml(top, tools=[echo]).run_sync("tides", show=False)
    assert [run.steps[name]["output"] for name in ("own", "same")] == ["About tides high!", "tides 1"]


@pytest.mark.req("R4.4")
def test_undeclared_input_of_a_nested_file_is_a_problem(tmp_path: Path) -> None:
    inner, top = tmp_path / "inner.yaml", tmp_path / "top.yaml"
    inner.write_text("inputs: {topic: 1}\nworkflow: [{goto: end}]\n")
    top.write_text("workflow:\n  - type: workflow\n    file: inner.yaml\n    inputs: {topik: 1, topic: 2}\n")
    assert problems(top) == [(4, "workflow step[0]: inputs: inner.yaml has no input topik")]
    inner.write_text("workflow:\n  - {type: tool, name: f, args: {a: '{{ $inputs.topic }}'}}\n")
    assert ["there is no input topic" in message for _, message in problems(inner)] == [True]


def test_unknown_tools_are_problems_when_tools_are_given(tmp_path: Path) -> None:
    def look() -> str:
        """Looks."""
        return ""

    path = tmp_path / "t.yaml"
    path.write_text("agents:\n  a:\n    tools: [lok]\nworkflow:\n  - {type: agent, name: a}\n  - {type: tool, name: luck}\n")
    assert [line for line, _ in problems(path, tools=[look])] == [3, 6] == [line for line, _ in problems(path, tools=[])]
    assert Workflow.from_yaml(path).tools == ()


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"workflow: \xe9")
    for name, expected in {"latin.yaml": "is not UTF-8 text", "none.yaml": "There is no file"}.items():
        with pytest.raises(SettingsError, match=expected):
            Workflow.from_yaml(tmp_path / name)


@pytest.mark.req("R4.34")
def test_workflow_spec_imports_no_runtime_or_session() -> None:
    rooms = (
        "runtime",
        "agent",
        "session",
        "models",
        "notebook",
        "display",
        "plots",
        "tables",
        "interchange",
        "store",
        "policies",
    )
    code = (
        "import sys\nimport agentnb.workflow.form.workflow_spec\n"
        f"print([one for one in sys.modules if one.startswith(tuple(f'agentnb.{{room}}' for room in {rooms}))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def chain_of_files(folder: Path, last: str) -> Path:
    """Write three files, each of which runs the next twice; the last does ``last``."""
    for name, to in {"top.yaml": "middle.yaml", "middle.yaml": "deep/bottom.yaml"}.items():
        (folder / name).write_text(RUNS.format(to) + f"  - {{id: b, type: workflow, file: {to}}}\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "bottom.yaml").write_text(last)
    return folder / "top.yaml"


def test_files_are_read_once_with_the_workflow(tmp_path: Path) -> None:
    top = chain_of_files(tmp_path, "agents: {w: {replies: [Yes]}}\nworkflow: [{type: agent, name: w}]\n")
    workflow = Workflow.from_yaml(top)
    middle = workflow.spec.nested["a"]
    assert middle is workflow.spec.nested["b"] and middle.nested["a"] is middle.nested["b"]
    for path in tmp_path.rglob("*.yaml"):
        path.unlink()
    assert workflow.run_sync(show=False).text == "Yes"


def test_nested_task_file_receives_the_inputs_of_its_step(tmp_path: Path) -> None:
    def say(word: str) -> str:
        """Says it."""
        return word

    (tmp_path / "tasks.yaml").write_text('stage: {main: {one: {action: say, input: {word: "${word}"}}}}\n')
    top = tmp_path / "top.yaml"
    step = "  - {{id: {0}, type: workflow, file: tasks.yaml, inputs: {{word: {0}}}}}\n"
    top.write_text("workflow:\n" + step.format("a") + step.format("b"))
    workflow = Workflow.from_yaml(top, tools=[say])
    (tmp_path / "tasks.yaml").unlink()
    run = workflow.run_sync(show=False)
    assert [run.steps[name]["output"] for name in "ab"] == ["a", "b"]


def files_that_run_the_next(folder: Path, count: int, times: int = 1) -> Path:
    """Write so many files that each run the next; the last does nothing."""
    for number in range(count):
        steps = [f"{{id: s{one}, type: workflow, file: {number + 1}.yaml}}" for one in range(times)]
        (folder / f"{number}.yaml").write_text(f"workflow: [{', '.join(steps)}]")
    (folder / f"{count}.yaml").write_text("workflow: [{goto: end}]")
    return folder / "0.yaml"


def test_nested_files_are_limited_in_depth_number_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    with subtests.test("deepest that runs"):
        assert Workflow.from_yaml(files_that_run_the_next(tmp_path, 19)).run_sync(show=False).status == "completed"
    for name, count, times, message in (
        ("one deeper", 20, 1, "20.yaml is nested deeper than 20 files"),
        ("a long chain", 400, 1, "20.yaml is nested deeper than 20 files"),
        ("each runs the next twice", 18, 2, "the workflow runs more than 1,000 files, nested ones included"),
        ("many in one file", 1, 1_001, "the workflow runs more than 1,000 files"),
    ):
        with subtests.test(name):
            assert message in problems(files_that_run_the_next(tmp_path, count, times))[0][1]
    with subtests.test("in a cell, without a file around"):
        monkeypatch.chdir(tmp_path)
        files_that_run_the_next(tmp_path, 19)
        with pytest.raises(WorkflowProblems, match=r"19\.yaml is nested deeper than 20 files"):
            Workflow.from_yaml(RUNS.format("0.yaml"))
    with subtests.test("large"):
        (tmp_path / "large.yaml").write_bytes(b"#" * 4_000_001)
        (tmp_path / "top.yaml").write_text(RUNS.format("large.yaml"))
        assert "large.yaml is 4,000,001 bytes long; the maximum is 4,000,000" in problems(tmp_path / "top.yaml")[0][1]
    with subtests.test("large together"):
        steps = [f"{{id: s{one}, type: workflow, file: p{one}.yaml}}" for one in range(2)]
        for one, length in enumerate((50_000, 1_960_000)):  # the second is counted, but not read
            (tmp_path / f"p{one}.yaml").write_text(f"workflow: [{{goto: end}}]\n#{'x' * length}")
        (tmp_path / "top.yaml").write_text(f"workflow: [{', '.join(steps)}]")
        assert "the files it runs have more than 2,000,000 characters" in problems(tmp_path / "top.yaml")[0][1]


def test_non_workflow_files_neither_block_nor_leak_their_content(tmp_path: Path, subtests: pytest.Subtests) -> None:
    top, secret = tmp_path / "top.yaml", "root:x:0:0:SESAME:/root:/bin/bash"
    for name, text in {
        "passwd": secret,
        "list.yaml": f"- {secret}",
        "json.yaml": '{"SESAME": 1',
        "open.yaml": "a: [SESAME",
    }.items():
        with subtests.test(name):
            (tmp_path / name).write_text(text)
            top.write_text(RUNS.format(name))
            ((_, message),) = problems(top)
            assert "is not a workflow: it has none of workflow:, agents: and stage:" in message and "SESAME" not in message
    os.mkfifo(tmp_path / "pipe")
    for name, said in {"pipe": "There is no file", "/dev/zero": "There is no file", "/proc/kmsg": ""}.items():
        with subtests.test(name):
            top.write_text(RUNS.format(name))
            assert said in problems(top)[0][1]
