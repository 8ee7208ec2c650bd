"""Mutate one module of each of five rooms, drawn by the date, with mutmut, and list the mutants that its tests miss.

    PATH/OF/MUTMUT/bin/python tests/breaks/mutate.py --for-seconds 300

``.ci/mutate`` makes an environment with mutmut. This is the breadth beside ``rules.toml``: many small changes. Survivors are
listed for a person to read; they are no failure. Works in a copy; the working tree is never changed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from random import Random

from break_rules import ROOT, copy_tree, end_group

ROOMS = ("core", "policies", "runtime", "detect", "tools")
SETTINGS = """
[tool.mutmut]
source_paths = ["agentnb"]
only_mutate = ["{module}"]
also_copy = ["conftest.py", "tests", "docs", "notebooks", "README.md", "Makefile"]
pytest_add_cli_args_test_selection = ["tests/{room}"]
"""


def draw_modules(root: Path, today: date) -> dict[str, str]:
    """Return one module for each room, the same for the whole day."""
    modules = {}
    for room in ROOMS:
        paths = sorted(path.relative_to(root).as_posix() for path in (root / "agentnb" / room).rglob("*.py"))
        modules[room] = Random(f"{today.isoformat()} {room}").choice(
            [path for path in paths if not path.endswith("__init__.py")]
        )
    return modules


def mutate(room: str, module: str, seconds: float) -> str:
    """Mutate a module; returns how far mutmut came, and the mutants that survived."""
    mutmut = [sys.executable, "-m", "mutmut"]
    with tempfile.TemporaryDirectory(prefix="agentnb-mutants-") as folder:
        tree = copy_tree(Path(folder).resolve())
        with (tree / "pyproject.toml").open("a", encoding="utf-8") as settings:
            settings.write(SETTINGS.format(module=module, room=room))
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen([*mutmut, "run"], cwd=tree, stdout=output, stderr=output, start_new_session=True)
            try:
                code = process.wait(timeout=seconds)
                output.seek(0)
                end = "done" if code == 0 else f"mutmut ended with {code}:\n{output.read()[-1500:]}"
            except subprocess.TimeoutExpired:
                end = f"time was up after {seconds:g} s"
            finally:
                end_group(process)
        results = subprocess.run([*mutmut, "results"], cwd=tree, capture_output=True, text=True).stdout
    survivors = [line for line in results.splitlines() if line.endswith("survived")]
    return "\n".join([f"{module}: {len(survivors)} survived, {end}", *survivors])


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and mutate the modules of the day."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for-seconds", type=float, default=300.0, help="for each module (default: 300)")
    parser.add_argument("--room", choices=ROOMS, action="append", help="only this room; may be repeated")
    options = parser.parse_args(arguments)
    for room, module in draw_modules(ROOT, date.today()).items():
        if room in (options.room or ROOMS):
            print(mutate(room, module, options.for_seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
