"""Commands as a shell runs them, in this process."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agentnb import Run, Store, load_trace

EXAMPLES = Path(__file__).parents[1] / "workflow" / "examples"
RUNS = Path(".agentnb") / "runs"
HEADING = "--- Step Context ---\n"
REPLIES = {
    "generator": "High water is at 04:12.",
    "translator": "Pleine mer à 04:12.",
    "publisher": "<p>Pleine mer à 04:12.</p>",
}
_numbers = itertools.count()


class Done(NamedTuple):
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def progress(self) -> list[str]:
        """Return the lines before the step context."""
        return self.err.partition(HEADING)[0].splitlines()

    @property
    def context(self) -> str:
        """Return the step context with its heading, and the text after it."""
        return "".join(self.err.partition(HEADING)[1:])

    @property
    def last(self) -> str:
        return self.err.splitlines()[-1]

    @property
    def why(self) -> str:
        """Return the line before the last, if the last is a command."""
        return self.err.splitlines()[-2]


Call = Callable[..., Done]


def sequential() -> Path:
    """Write the sequential example into this folder, with replies in the file."""
    text = (EXAMPLES / "sequential.yaml").read_text("utf-8")
    for name, reply in REPLIES.items():
        text = text.replace(f"  {name}:\n", f"  {name}:\n    replies: ['{reply}']\n", 1)
    return written("sequential.yaml", text)


def written(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text, "utf-8")
    return path


def module(text: str) -> str:
    """Write this text as a uniquely named module of this folder; return its name."""
    name = f"shell_tools_{next(_numbers)}"
    written(f"{name}.py", text)
    return name


def last_run() -> Run:
    """Return the newest top-level run of this folder."""
    return next(run for run in map(load_trace, sorted(RUNS.glob("*.jsonl"), reverse=True)) if run.parent_id is None)


def nested_runs() -> list[Run]:
    loaded = [Store(RUNS).load(run_id) for run_id in Store(RUNS).ids()]
    nested = [run for run in loaded if run.parent_id is not None and run.started_at is not None]
    return sorted(nested, key=lambda run: str(run.started_at))  # ids of the same millisecond sort at random


def lines_of(done: Done, path: str) -> list[int]:
    """Return the lines of a file with problems, in reported order."""
    return [int(match) for match in re.findall(rf"^{re.escape(path)}:(\d+): ", done.out + done.err, re.MULTILINE)]
