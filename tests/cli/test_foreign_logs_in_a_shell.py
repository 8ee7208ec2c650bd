"""``agentnb recover`` and ``agentnb answer`` with changed or foreign logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell_calls import RUNS, Call, last_run, module, nested_runs, written
from test_answer_in_a_shell import command_of

from agentnb.core.log.events import RunRecovered
from agentnb.core.log.wire import encode

if TYPE_CHECKING:
    from terminal import Program

WRITE = """
def write(path: str) -> str:
    'Writes.'
    with open('done.txt', 'a') as file:
        file.write(path)
    return path
"""
ONE = "workflow:\n  - {id: a, type: tool, name: write, args: {path: a}}\n"
OUTER = "workflow:\n  - {id: sub, type: workflow, file: inner.yaml}\n"


def done() -> str:
    path = Path("done.txt")
    return path.read_text() if path.exists() else ""


def waiting_run(cli: Call, *tools: str, text: str = ONE) -> str:
    """Return the id of a run that waits for an approval."""
    assert cli("exec", written("one.yaml", text), "--approve", "ask", *tools).code == 4
    return last_run().id


def change(run_id: str, old: str = '"approve":"ask"', new: str = '"approve":"auto"') -> None:
    path = RUNS / f"{run_id}.jsonl"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def tools(cli: Call) -> tuple[str, ...]:
    return "--tools", f"{module(WRITE)}:write"


def test_changed_log_is_refused_with_the_command_to_type(cli: Call, tools: tuple[str, ...]) -> None:
    run_id = waiting_run(cli, *tools)
    change(run_id)
    for argv in (("recover", run_id), ("answer", run_id, "approve")):
        refused = cli(*argv, *tools)
        assert refused.code == 2 and "was not written by your agentnb" in refused.err
        assert "--trust-log" in refused.err and "--no-trust-log" in refused.err
    assert done() == "" and last_run().times_recovered == 0
    assert cli("show", run_id).code == cli("runs").code == 0


def test_refused_log_asks_again_and_counts_as_own_afterwards(cli: Call, tools: tuple[str, ...]) -> None:
    run_id = waiting_run(cli, *tools)
    change(run_id)
    again = cli("answer", run_id, "approve", "--no-trust-log", *tools)
    assert again.code == 4 and "you will be asked again" in again.err and done() == ""
    assert cli(*command_of(again)).code == 0 and done() == "a"


def test_accepted_log_is_resumed_unchanged(cli: Call, tools: tuple[str, ...]) -> None:
    run_id = waiting_run(cli, *tools)
    change(run_id)
    assert cli("recover", run_id, "--trust-log", *tools).code == 0
    assert done() == "a"


def test_changed_log_cannot_grant_permissions(cli: Call, tools: tuple[str, ...]) -> None:
    written("inner.yaml", ONE)
    run_id = waiting_run(cli, *tools, text=OUTER)
    (nested,) = nested_runs()
    change(nested.id)
    path = RUNS / f"{run_id}.jsonl"
    count = len(path.read_bytes().splitlines())
    forged = RunRecovered(seq=count, at=None, run_id=run_id, schema=5, approve="auto", consent="taken")
    path.write_bytes(path.read_bytes() + encode(forged))
    asked = cli("recover", run_id, "--no-trust-log", *tools)
    assert asked.code == 4 and done() == ""
    assert cli(*command_of(asked)).code == 0 and done() == "a"


def test_results_in_a_changed_nested_log_are_ignored(cli: Call, tools: tuple[str, ...]) -> None:
    written("inner.yaml", ONE)
    run_id = waiting_run(cli, *tools, text=OUTER)
    (nested,) = nested_runs()
    change(nested.id)
    asked = cli("recover", run_id, *tools)
    assert asked.code == 4 and done() == ""
    (nested,) = nested_runs()
    assert [event.consent for event in nested.events if type(event).__name__ == "RunRecovered"] == ["refused"]
    assert cli(*command_of(asked)).code == 0 and done() == "a"


def test_nested_log_changed_after_acceptance_is_ignored(cli: Call, tools: tuple[str, ...]) -> None:
    written("inner.yaml", ONE)
    run_id = waiting_run(cli, *tools, text=OUTER)
    change(run_id, '"source":"one.yaml"', '"source":"two.yaml"')
    (nested,) = nested_runs()
    assert cli("recover", run_id, "--trust-log", *tools).code == 4
    change(nested.id)
    assert cli("recover", run_id, *tools).code == 4 and done() == ""
    (nested,) = nested_runs()
    assert [event.consent for event in nested.events if type(event).__name__ == "RunRecovered"] == ["", "refused"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.nightly("by day the same answers as options")
@pytest.mark.slow("programs of their own that ask at a terminal")
def test_terminal_asks_about_a_changed_log(
    program: Program, cli: Call, tools: tuple[str, ...], subtests: pytest.Subtests
) -> None:
    for typed, code, effect in (("no", 2, ""), ("ask", 4, ""), ("yes", 0, "a")):
        with subtests.test(typed):
            run_id = waiting_run(cli, *tools)
            change(run_id)
            with program("recover", run_id, *tools) as terminal:
                asked = terminal.type(typed)
                assert f"{'mode':<14} auto" in asked and "workflow" in asked
                assert terminal.ended()[0] == code
            assert done() == effect
