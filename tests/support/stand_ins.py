"""Programs in the place of external agents: the one of tests/acp at the wire, under their names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FAKE = Path(__file__).resolve().parents[1] / "acp" / "fake_agent.py"
NAMES = ("opencode", "kimi")


def path_with_stand_ins(folder: Path) -> str:
    """Return a ``PATH`` with these programs first. ``folder``: the folder to make them in."""
    # A copy, since a sandbox shows no other file of the tests. It begins as a script of the shell, whose lines Python takes for
    # the docstring of the module: so the path of Python may have blanks.
    _, _, source = FAKE.read_text().split('"""', 2)
    for name in NAMES:
        program = folder / name
        program.write_text(f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n{source}")
        program.chmod(0o755)
    return os.pathsep.join((str(folder), os.environ["PATH"]))
