"""Lists the runs in files, numbered, as text for a shell."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.log.outcome import Outcome
from agentnb.detect.run import Run
from agentnb.display.lists.browser import STATE_WIDTH, figures, page_words, state_and_outcome
from agentnb.display.lists.run_rows import RunRow, contains, row_of
from agentnb.display.texts.labels import clean, first_line, short_id

MAX_OF_A_PROMPT = 50
MAX_OF_A_FILE = 60


def files_text(
    runs: Sequence[Run],
    name: str,
    *,
    most: int,
    words: Sequence[str] = (),
    outcome: Outcome | None = None,
    is_folder: bool = False,
) -> str:
    """Return one line per run of a file or folder, for at most ``most`` of the runs that have all these words and this outcome.

    Each line has the run's number (from 1), the end of its id, its state, prompt and figures, and in a folder its file.
    """
    rows = [row_of(index, run) for index, run in enumerate(runs)]
    fitting = [row for row in rows if outcome in (None, row.outcome) and all(_fits(row, word) for word in words)]
    shown = fitting[:most]
    heading = f"{page_words(0, len(shown), len(fitting), len(rows))} in {clean(name)}"
    number = " --run ID" if is_folder else " --run NUMBER" if len(rows) > 1 else ""
    hint = f". Show one: agentnb show {'FILE' if is_folder else clean(name)}{number}" if shown else ""
    return "\n".join([heading + hint, *[_line(row, with_file=is_folder) for row in shown]]) + "\n"


def _fits(row: RunRow, word: str) -> bool:
    return word.casefold() in f"{row.state} {row.outcome_words} {row.status} {row.format}".casefold() or contains(
        row.run, [word.casefold()]
    )


def _line(row: RunRow, *, with_file: bool) -> str:
    state = state_and_outcome(row)
    asked = first_line(row.run.prompt, MAX_OF_A_PROMPT)
    details = [*figures(row), *(_place(row) if with_file else [])]
    columns = f"{row.place + 1:>4}  {short_id(row.run.id)}  {state:<{STATE_WIDTH}}  {asked:<{MAX_OF_A_PROMPT}}"
    return clean(f"{columns}  {', '.join(details)}").rstrip()


def _place(row: RunRow) -> list[str]:
    origin = row.run.origin
    if origin is None:
        return [row.run.id]
    file = origin.file if len(origin.file) <= MAX_OF_A_FILE else f"…{origin.file[-MAX_OF_A_FILE:]}"
    return [" ".join(filter(None, (row.format, file, origin.position)))]
