"""A hundred commands as developers and agents type them."""

from __future__ import annotations

import re
from pathlib import Path

_FILE = Path(__file__).parents[1] / "commands" / "ordinary_commands.txt"
_ESCAPED = {"\\n": "\n", "\\\\": "\\"}
ORDINARY_COMMANDS = tuple(
    re.sub(r"\\[n\\]", lambda found: _ESCAPED[found[0]], line) for line in _FILE.read_text(encoding="utf-8").splitlines()
)
"""The commands; in the file, ``\\n`` is a line break and two backslashes are a backslash."""
