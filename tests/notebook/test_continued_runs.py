"""``%%agent --continue``: the choice of the run to continue."""

from __future__ import annotations

from typing import Any

import pytest


def test_continue_option_accepts_a_variable_or_run_id(kernel: Any, subtests: pytest.Subtests) -> None:
    for name in ("a", "b"):
        kernel.run(f"%%agent -o {name}\nTask of {name}.")
    first = kernel.value("a.id")
    cases = {
        "-o a --continue": "a",
        "--continue a -o later": "a",
        f"--continue {first} -o later": "a",
        f"--continue …{first[-6:]} -o later": "a",
        "--continue -o nothing_yet": "later",
        "--continue -o number": "nothing_yet",
    }
    kernel.run("number = 5")
    for options, before in cases.items():
        with subtests.test(options):
            expected = kernel.value(f"{before}.id") if before != "a" else first
            kernel.run(f"a = __import__('agentnb').Store('.agentnb/runs').load({first!r})")
            cell = kernel.run(f"%%agent {options}\nGo on.")
            assert cell.status == "ok", cell.error
            out = options.partition("-o ")[2].split()[0]
            assert kernel.value(f"{out}.continued_from") == expected


def test_continue_without_a_name_reports_which_run_it_continues(kernel: Any) -> None:
    kernel.run("%%agent -o mine\nCount   the\nboats.")
    run_id = kernel.value("mine.id")[-8:]
    printed = kernel.run("%%agent --continue -o mine\nAnd now?").printed
    assert printed == f"Continuing run {run_id} (in mine): Count the boats.\n"
    last = kernel.value("mine.id")[-8:]
    assert kernel.run("%%agent --continue -o new\nAnd now?").printed == f"Continuing run {last} (the last): And now?\n"
    assert kernel.run("%%agent --continue mine -o new\nAnd now?").printed == ""


def test_continue_option_refuses_invalid_runs(kernel: Any, subtests: pytest.Subtests) -> None:
    kernel.run("%%agent -o finished\nhello\n")
    kernel.run("number = 5")
    kernel.run("%%agent -o going -t nap --background\n- sleep `nap(60)`")
    kernel.run("%%workflow -o steps -t add\nworkflow: [{id: one, type: tool, name: add, args: {a: 1}}]")
    for options, expected in {
        "--continue finishd": "neither a variable that holds a run nor the name or id of one. Did you mean finished?",
        "--continue number": "--continue number: the variable holds a int, not a run. %agent history lists the runs",
        "--continue going": "is still running. Wait for it, or end it: %agent stop ",
        "--continue -o going": "is still running. Wait for it, or end it: %agent stop ",
        "--continue steps": "is a workflow with steps instead of rounds",
    }.items():
        with subtests.test(options):
            cell = kernel.run(f"%%agent {options}\nGo on.")
            assert cell.status == "error" and expected in cell.error and "\n" not in cell.error
    kernel.run("%agent stop")
