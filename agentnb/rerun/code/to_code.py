"""Converts a run's tool calls to plain Python, to repeat an analysis without the agent."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.run import Run
from agentnb.interchange.files import one_run
from agentnb.store.redacting import redacted
from agentnb.tools.agent_tool import PROMPT

WIDTH = 100
"""Maximum characters of a comment line."""
_MAX_COMMENT = 300


def to_code(run: Run | str | Path) -> str:
    """Return the run's calls to work tools as Python, with one ``# %%`` cell per round.

    The code calls tools by name; the first cell lists the names that you have to define or import. Results are
    assigned to ``result_1``, ``result_2`` and so on. Failed and blocked calls become comments with the reason;
    planning and todo lists are omitted. Comments above the calls quote the agent. Keys, and texts that look like
    keys, are masked as they are by `save_trace`.
    """
    run = redacted(one_run(run))
    check_of_agent(run, "no model called its tools")
    numbers = count(1)
    cells = ["\n".join(lines) for lines in (_head(run), *(_cell(round_, numbers) for round_ in run.rounds))]
    return "\n\n".join(filter(None, cells)) + "\n"


def _head(run: Run) -> Iterator[str]:
    names = sorted({record.call.name for record in _work(run)})
    yield f"# %% {one_line(run.prompt)}"
    yield f"# The tool calls of run {one_line(run.id)}, without the agent."
    if names:
        yield from textwrap.wrap(
            f"Define or import first: {', '.join(map(one_line, names))}",
            WIDTH,
            initial_indent="# ",
            subsequent_indent="# ",
        )
    else:
        yield "# The run called no tools."


def _work(run: Run) -> Iterator[CallRecord]:
    for round_ in run.rounds:
        for record in round_.records:
            if record.is_work:
                yield record


def _cell(round_: WorkflowRound, numbers: Iterator[int]) -> Iterator[str]:
    records = [record for record in round_.records if record.is_work]
    if not records:
        return
    yield f"# %% Round {round_.index + 1}"
    yield from _comment(round_.text)
    for record in records:
        yield from _call(record, numbers)


def _call(record: CallRecord, numbers: Iterator[int]) -> Iterator[str]:
    code = f"{one_line(record.call.name)}({_arguments(record.call.arguments)})"
    result = record.result
    if result is None or not record.success:
        why = "it has no result" if result is None else f"{result.error_code or 'failed'}: {result.text}"
        yield from _comment(f"Not repeated ({why}):")
        yield f"# {code}"
    elif not all(part.isidentifier() and not keyword.iskeyword(part) for part in record.call.name.split(".")):
        yield from _comment("The name of this tool is not a Python identifier:")
        yield f"# {code}"
    elif not _is_python(code):
        yield from _comment("Python cannot parse this call, for example because its arguments are nested too deep:")
        yield f"# {code}"
    else:
        yield from _about_nested(record)
        yield f"result_{next(numbers)} = {code}"


def _about_nested(record: CallRecord) -> list[str]:
    """Return a comment on a call that may be to an agent or workflow, which code cannot call like a function."""
    arguments = record.call.arguments
    if not record.nested or not isinstance(arguments, dict) or arguments.keys() != {PROMPT}:
        return []
    begun, name = ", ".join(child.run_id for child in record.nested), record.call.name
    return _comment(f"The call started {begun}. If {name} is an agent or a workflow, write {name}.run_sync(...).text instead:")


def _is_python(code: str) -> bool:
    try:
        compile(code, "call", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return repr(arguments)
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in arguments):
        return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"**{arguments!r}"


def _comment(text: str) -> list[str]:
    line = one_line(text)
    short = line if len(line) <= _MAX_COMMENT else line[: _MAX_COMMENT - 1] + "…"
    return textwrap.wrap(short, WIDTH, initial_indent="# ", subsequent_indent="# ")


def one_line(text: str) -> str:
    """Return a model's text as one line without control characters, so that it cannot leave its comment."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
