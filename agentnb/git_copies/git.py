"""The person's git program, applied to a git directory without hooks or network access."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from agentnb import settings

SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
APART = {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
SECONDS = 120
GITLINK = re.compile(rb"(?:^|\0)160000 [0-9a-f]+ \d\t([^\0]*)")


class Git:
    """The git program, and the git directory to which it is applied."""

    def __init__(self, program: str, folder: Path) -> None:
        self._words = [program, *SAFE, f"--git-dir={folder}"]
        self._variables = {**settings.program_variables(), **APART}

    def run(self, *words: str, given: bytes = b"", **variables: str) -> tuple[bool, bytes]:
        """Return whether git succeeded, and its output."""
        try:
            process = subprocess.run(
                [*self._words, *words],
                input=given,
                capture_output=True,
                check=False,
                timeout=SECONDS,
                env={**self._variables, **variables},
                cwd="/",
            )
        except (OSError, subprocess.TimeoutExpired):
            return False, b""
        return process.returncode == 0, process.stdout


def links_among(staged: bytes) -> set[bytes]:
    """Return the paths of submodules in the output of ``ls-files --stage -z``."""
    return set(GITLINK.findall(staged))
