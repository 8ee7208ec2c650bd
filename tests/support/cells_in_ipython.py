"""Runs cells in an IPython of their own, as somebody who follows a page does."""

from __future__ import annotations

import subprocess
import sys


def in_notebook(*given: str) -> str:
    """Run these cells in IPython; return the output, with the last value after RESULT."""
    cells = ["%load_ext agentnb", *given]
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        f"for cell in {cells!r}:\n"
        "    done = shell.run_cell(cell)\n"
        "    done.raise_error()\n"
        "print('RESULT', done.result)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr
