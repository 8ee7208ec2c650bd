"""The calls and bytes of a run, a step and a card, and the files that a step passes, which grow only with a reason."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from benchmark_scripts import FOLDER, load_benchmark

COUNTED_WITH = tomllib.loads((FOLDER / "calls.toml").read_text())["python"]


@pytest.mark.skipif(sys.version_info[:2] != tuple(map(int, COUNTED_WITH.split("."))), reason="counted with another Python")
def test_number_of_calls_does_not_grow_without_a_reason() -> None:
    done = subprocess.run([sys.executable, FOLDER / "calls.py"], capture_output=True, check=False, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tool_step_of_each_form_passes_few_files(subtests: pytest.Subtests) -> None:
    ways = load_benchmark("ways")
    most = {"a workflow": (17, 28), "a task file": (17, 28), "a plan": (19, 32)}
    assert most.keys() == ways.FORMS.keys()
    for name, (files, stays) in most.items():
        with subtests.test(name):
            counted_files, counted_stays = ways.count(ways.FORMS[name])
            assert 10 < counted_files <= files and 10 < counted_stays <= stays
