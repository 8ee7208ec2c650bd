"""The line by which the gate tells whether the ways out of the sandbox were tried."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "sandbox-line"
SKIPPED = "SKIPPED [1] tests/tools/builtin/shell/test_escapes.py:33: No sandbox: no bwrap here"

CASES = {
    "all passed": ("...\n15 passed, 34 subtests passed in 2.27s", 0, "ran: 15 passed"),
    "none could run": (f"sss\n{SKIPPED}\n15 skipped in 0.10s", 0, "did not run: No sandbox: no bwrap here"),
    "some could run": (
        f".s.\n{SKIPPED}\n14 passed, 1 skipped, 34 subtests passed in 2.27s",
        0,
        "ran: 14 passed, 1 skipped: No sandbox: no bwrap here",
    ),
    "one failed": (
        f"F.s\n{SKIPPED}\nFAILED x.py::test_a - assert\n1 failed, 13 passed, 1 skipped in 2s",
        1,
        "ran, and failed: 1 failed, 13 passed, 1 skipped in 2s",
    ),
    "a part of one failed": (
        "u\nSUBFAILED[a] x.py::test_a - assert\n1 passed, 1 subtests failed in 2s",
        1,
        "ran, and failed: 1 passed, 1 subtests failed in 2s",
    ),
    "the clearing up failed": (
        ".E\nERROR x.py::test_a\n1 passed, 1 error in 1s",
        1,
        "ran, and failed: 1 passed, 1 error in 1s",
    ),
    "file that cannot be read": ("ERROR x.py\n1 error in 0.10s", 2, "did not run: 1 error in 0.10s"),
    "no pytest": ("python: No module named pytest", 1, "did not run: python: No module named pytest"),
    "no test": ("no tests ran in 0.01s", 5, "did not run: no tests ran in 0.01s"),
}
"""What pytest prints, the code with which it ends, and what the line says."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="the gate needs bash")
def test_the_line_tells_whether_the_tests_ran(tmp_path: Path, subtests: pytest.Subtests) -> None:
    script, python = tmp_path / ".ci" / "sandbox-line", tmp_path / ".venv" / "bin" / "python"
    for path in (script, python):
        path.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    for case, (report, code, line) in CASES.items():
        with subtests.test(case):
            (tmp_path / "report").write_text(f"{report}\n")
            python.write_text(f'#!/bin/sh\n[ "$2" = pytest ] && cat report\nexit {code}\n')
            python.chmod(0o755)
            ended = subprocess.run([script], capture_output=True, text=True, timeout=60, check=True, cwd="/")
            assert ended.stdout == f"Sandbox: escape tests {line}\n"
            assert ended.stderr == ""
