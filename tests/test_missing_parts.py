"""The line at the end of a run about tests that were skipped for lack of a part of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from missing_parts import missing_line

ROOT = Path(__file__).resolve().parents[1]


def test_line_counts_what_was_skipped_and_names_the_packages() -> None:
    assert missing_line([]) == ""
    line = missing_line([*["Chromium"] * 1_200, "bubblewrap", "Node"])
    assert line.startswith("Skipped: 1,200 for lack of Chromium, 1 for lack of bubblewrap, 1 for lack of Node. ")
    assert line.endswith("sudo apt-get install chromium bubblewrap nodejs npm && make test")


@pytest.mark.slow("a run of tests of its own")
def test_run_without_bubblewrap_ends_with_the_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "tests/agent/test_shell_in_runs.py"]
    alone = {**os.environ, "PATH": str(tmp_path)}
    shown = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False, timeout=100).stdout
    assert "Skipped: 2 for lack of bubblewrap. To run them (Debian, Ubuntu): sudo apt-get install bubblewrap" in shown
