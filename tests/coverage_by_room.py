"""Prints the line coverage of the tests of fast rooms: ``python tests/coverage_by_room.py``. No threshold fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("detect", "guidance", "context")


def main() -> int:
    """Run the tests of the rooms under coverage, in one process, and print one line per room and a total."""
    with TemporaryDirectory() as folder:
        coverage = [sys.executable, "-m", "coverage"]
        environment = {**os.environ, "COVERAGE_FILE": str(Path(folder, "data"))}
        source = "--source=" + ",".join(f"agentnb.{room}" for room in ROOMS)
        tests = ["-m", "pytest", "-qq", "--no-summary", *(f"tests/{room}" for room in ROOMS)]
        ended = subprocess.run(
            [*coverage, "run", source, *tests], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False
        )
        for room, pattern in [*((room, f"agentnb/{room}/*") for room in ROOMS), ("total", "agentnb/*")]:
            report = [*coverage, "report", "--format=total", f"--include={pattern}"]
            total = subprocess.run(report, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
            print(f"coverage of {room:<10}{total.strip():>3} % of lines", flush=True)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
