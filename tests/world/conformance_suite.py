"""The official conformance suite of MCP clients: it starts a server and ``conformance_client.py`` for each scenario."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpart_cases import Case
from environments import ROOT, Environment

CLIENT = Path(__file__).with_name("conformance_client.py")
SECONDS = 120
TRIED = "official scenarios"


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield each client scenario of the suite that the row names."""
    variables = {**os.environ, "PATH": f"{environment.path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    suite = environment.program("conformance")

    def told(*arguments: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            command = [suite, *arguments]
            return subprocess.run(
                command, cwd=folder, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
            )

    listed = re.findall(r"^\s+- (\S+)", told("list", "--client").stdout, re.MULTILINE)
    for scenario in listed:
        if re.search(row["scenarios"], scenario):
            done = told("client", "--command", shlex.join([sys.executable, str(CLIENT)]), "--scenario", scenario)
            yield Case(scenario, "" if done.returncode == 0 else _reason(done.stdout + done.stderr))


def _reason(text: str) -> str:
    """Return the failed checks of a scenario, or the last line that its client wrote."""
    checks = re.search(r"^Failed Checks:\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    told = re.search(r"^Stderr:\n(.*?)^Results saved", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for line in (told[1] if told else text).splitlines() if line.strip()]
    return " ".join(checks[1].split()) if checks else lines[-1] if lines else "it wrote nothing"
