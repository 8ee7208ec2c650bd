"""The calls and bytes of a run, a step and a card, which grow only with a reason."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from benchmark_scripts import FOLDER

COUNTED_WITH = tomllib.loads((FOLDER / "calls.toml").read_text())["python"]


@pytest.mark.skipif(sys.version_info[:2] != tuple(map(int, COUNTED_WITH.split("."))), reason="counted with another Python")
def test_number_of_calls_does_not_grow_without_a_reason() -> None:
    done = subprocess.run([sys.executable, FOLDER / "calls.py"], capture_output=True, check=False, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
