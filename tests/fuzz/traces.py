"""Traces and logs for the fuzzer: damaged samples of every format, and files made to be slow, large or empty."""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from driver import Silent
from mutations import DEPTHS, LITERALS, change_bytes, change_values, packed

from agentnb import Run, Store, iter_traces, load_traces, replay, save_trace, tables
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html
from agentnb.display.card.text import run_text
from agentnb.errors import AgentnbError, StoreError, TraceError
from agentnb.interchange.exports import EXPORTS
from agentnb.tables import NAMES as ALL_TABLES

ROOT = Path(__file__).parents[2]
FOLDERS = (
    ROOT / "agentnb" / "examples",
    ROOT / "tests" / "interchange" / "formats" / "files",
    ROOT / "tests" / "store" / "older_logs",
)
"""Folder of samples, in every clone."""
RECORDED = ROOT.parent / "shared" / "traces"
"""Recorded traces beside the clone; most machines have none."""
MAX_SAMPLE_BYTES = 120_000
MAX_MADE_BYTES = 10_000_000
MAX_RUNS_SHOWN = 1
"""Runs of a file that are shown in every way; of the rest, the rounds and messages are read."""
MAX_EVENTS_OF_ALL_FORMS = 1_000
"""Events of a run that is exported in every form: each form of a run of thousands of rounds takes a second."""
ENDINGS = (".json", ".jsonl", ".yaml", ".txt", ".log", ".zip", ".gz", ".db", ".parquet", ".html", ".eval", ".traj", "")


ODD_LINKS = {"a-dangling.jsonl": "gone", "a-circle.jsonl": "a-circle.jsonl", "a-device.json": "/dev/zero"}
ODD_PIPE = "a-pipe.json"
"""Odd files among traces: each is one problem, and never the end of its folder."""


@cache
def samples() -> list[tuple[str, bytes]]:
    """Return the sound files that are damaged: names and contents, in order."""
    folders = (*FOLDERS, *([RECORDED] if RECORDED.is_dir() else []))
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in ENDINGS[:-1]]
    kept = [(path.name, path.read_bytes()) for path in paths if path.stat().st_size <= MAX_SAMPLE_BYTES]
    return [*kept, *_own_forms()]


def _own_forms() -> list[tuple[str, bytes]]:
    """Return logs, a page and a Parquet file of agentnb's own, made of an example."""
    forms = []
    with TemporaryDirectory() as folder:
        for example in ("gpt-simple-fail.json", "healthy-research.json"):
            run = load_traces(ROOT / "agentnb" / "examples" / example)[0]
            for ending in ("jsonl", "html", "parquet"):
                path = save_trace(run, Path(folder) / f"{example}.{ending}")
                forms.append((path.name, path.read_bytes()))
    return forms


def write(random: Random, folder: Path) -> Path:
    """Write a file made of the generator alone, and return its path; sometimes beside what is no regular file."""
    path = write_from(samples(), random, folder)
    if random.random() < 0.05:
        for name, target in ODD_LINKS.items():
            (folder / name).symlink_to(target)
        os.mkfifo(folder / ODD_PIPE)
    return path


def write_from(sound: list[tuple[str, bytes]], random: Random, folder: Path) -> Path:
    """Write one of these samples damaged, or a hostile file."""
    name, data = random.choice(sound)
    suffix = Path(name).suffix
    way = random.random()
    if way < 0.04:
        path = folder / f"made{random.choice(('.json', '.jsonl'))}"
        path.write_bytes(random.choice(HOSTILE)(random))
        return path
    if way < 0.06:
        return _database(random, folder / "made.db")
    if way < 0.60:
        data = change_values(random, data)
    elif way < 0.80:
        data = change_bytes(random, data)
    elif way < 0.84:
        data = data + random.choice((b"", b"\n")) + random.choice(sound)[1]
    elif way < 0.94:
        data = packed(random, change_values(random, data) if random.random() < 0.5 else data, name)
    if random.random() < 0.2:
        suffix = random.choice(ENDINGS)
    path = folder / f"made{suffix}"
    path.write_bytes(data[:MAX_MADE_BYTES])
    return path


# Files made to be slow or large

SIZES = (100, 100, 100, 300, 300, 1_000, 1_000, 3_000)
"""Rounds, calls or events of a kind in one file; of the largest, few files are enough: each takes seconds."""


def _chat(messages: list[dict[str, Any]]) -> bytes:
    return json.dumps({"model": "openai:m", "messages": messages}).encode()


def _call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def many_rounds(random: Random) -> bytes:
    """Rounds whose calls have equal ids."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go"}]
    for _ in range(random.choice(SIZES) + random.randrange(100)):
        messages.append({"role": "assistant", "content": None, "tool_calls": [_call("same")]})
        messages.append({"role": "tool", "tool_call_id": "same", "content": "x"})
    return _chat(messages)


def many_calls(random: Random) -> bytes:
    """Return a message with many calls, with results in any order, or without some."""
    names = [f"c{number}" for number in range(random.choice(SIZES) + random.randrange(100))]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go"}]
    messages.append({"role": "assistant", "content": None, "tool_calls": [_call(name) for name in names]})
    names = names if random.random() < 0.5 else names[::-1]
    messages += [{"role": "tool", "tool_call_id": name, "content": "x"} for name in names if random.random() < 0.9]
    return _chat(messages)


def many_orphans(random: Random) -> bytes:
    """Results of calls that nobody made."""
    results = [{"role": "tool", "tool_call_id": f"c{number % 7}", "content": str(number)} for number in range(2_000)]
    return _chat([{"role": "user", "content": "Go"}, {"role": "assistant", "content": "I look."}, *results])


def long_text(random: Random) -> bytes:
    """A message of a few megabytes, of one character or of Markdown."""
    piece = random.choice(("x", "[", "*", "`", "\n", "<", "$", "| a ", "- ", "> ", "\\(", "&", "_a"))
    text = piece * random.choice((10_000, 300_000))
    return _chat([{"role": "user", "content": "Go"}, {"role": "assistant", "content": text}])


def deep(random: Random) -> bytes:
    """Brackets in brackets."""
    depth = random.choice((*DEPTHS, 1_000_000))
    opened, closed = random.choice(((b"[", b"]"), (b'{"messages":', b"}"), (b'[{"role":"user","content":', b"}]")))
    return opened * depth + (closed * depth if random.random() < 0.5 else b"")


def many_lines(random: Random) -> bytes:
    """Many lines that say little."""
    line = random.choice((b"{}", b"[]", b"null", b"{", b'{"type":"user"}', b'{"role":"user","content":"x"}', b" ", b""))
    return (line + b"\n") * random.choice((1_000, 50_000))


def literal(random: Random) -> bytes:
    """Return a sample with one literal in the place of a number or text that it repeats."""
    _, data = random.choice(samples())
    digits = random.choice((b"1", b"2", b"0.", b"true", b"null", b'"'))
    return data.replace(b":" + digits, b":" + random.choice(LITERALS) + b",", 3)


def yaml_bomb(random: Random) -> bytes:
    """A cassette of aliases of aliases."""
    lines = ["interactions:", "- &a0 {request: {body: x}}"]
    lines += [f"- &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, random.choice((4, 12)))]
    return "\n".join(lines).encode()


HOSTILE: tuple[Callable[[Random], bytes], ...] = (
    many_rounds,
    many_calls,
    many_orphans,
    long_text,
    deep,
    many_lines,
    literal,
    yaml_bomb,
)


def _database(random: Random, path: Path) -> Path:
    """Write a database of sessions, whose rows or tables are odd, or without end."""
    sessions = random.choice(
        (
            "CREATE TABLE sessions (id TEXT, created_at TEXT, messages TEXT)",
            "CREATE VIEW sessions AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT 'x' AS id, '2026-01-01' AS created_at, '[]' AS messages FROM n",
            "CREATE VIEW sessions AS SELECT 'x' AS id, '2026-01-01' AS created_at, hex(zeroblob(40000000)) AS messages",
        )
    )
    document = random.choice([data for name, data in samples() if name.endswith(".json")])
    rows = [(f"s{number}", "2026-01-01", change_values(random, document).decode("utf-8", "replace")) for number in range(3)]
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(sessions)
        if sessions.startswith("CREATE TABLE"):
            opened.executemany("INSERT INTO sessions VALUES (?, ?, ?)", rows)
        opened.commit()
    if random.random() < 0.5:
        path.write_bytes(change_bytes(random, path.read_bytes()))
    return path


# What is done with each


def check(path: Path) -> bool:
    """Read the file strictly and not, alone and in its folder, and do all that can be done with its runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        is_read = False
        for strict in (True, False):
            try:
                runs = load_traces(path, strict=strict)
            except (TraceError, StoreError) as error:
                check_told(str(error))
                continue
            is_read = True
            if not runs and not runs.problems:
                raise Silent(f"{path.name} is read as no run, without a problem")
            for problem in runs.problems:
                check_told(str(problem))
            for number, run in enumerate(runs):
                check_run(run, path.parent, all_forms=not strict and number < MAX_RUNS_SHOWN)
        _check_folder(path.parent)
    return is_read


def check_told(text: str) -> None:
    if not text.strip():
        raise AssertionError("An error without a word")


def _check_folder(folder: Path) -> None:
    """Read the folder as a folder, and as a store: the file is read there, or left out by name."""
    problems: list[Any] = []
    for number, _ in enumerate(iter_traces(folder, problems=problems)):
        if number > MAX_RUNS_SHOWN:
            break
    if (folder / ODD_PIPE).exists():
        names = [*ODD_LINKS, ODD_PIPE]
        assert [sum(Path(problem.file).name == name for problem in problems) for name in names] == [1] * len(names)
    store = Store(folder)
    left_out: list[str] = []
    [*store.each_summary(left_out)]


def check_run(run: Run, folder: Path, *, all_forms: bool) -> None:
    """Read all of a run, and show, replay, tabulate and save it."""
    if not run.rounds and not run.steps and run.status == "completed" and not run.warnings:
        raise Silent(f"run {run.id} has no round, and no warning")
    assert run.messages is not None and run.text is not None and run.status
    [(each.results, each.text, each.calls) for each in run.rounds]
    if not all_forms:
        return
    for name in ALL_TABLES:
        getattr(tables, name)(run)
    assert all((run_html(run), run_text(run), compact_html(run)))
    with TemporaryDirectory(dir=folder, prefix=".saved-") as saved:
        again = load_traces(save_trace(run, Path(saved) / "run.jsonl"))[0]
        assert (again.id, len(again.rounds), again.messages) == (run.id, len(run.rounds), run.messages)
        save_trace(run, Path(saved) / "run.html")
        for form in _forms(run):
            _allowed(lambda form=form: save_trace(run, Path(saved) / form, form))
    _allowed(lambda: replay(run))


def _forms(run: Run) -> list[str]:
    """Return the forms to export a run in: all, or one of a large run, by its size. Files of other sizes get the others."""
    forms = [*EXPORTS]
    return forms if len(run.events) <= MAX_EVENTS_OF_ALL_FORMS else [forms[len(run.events) % len(forms)]]


def _allowed(act: Callable[[], object]) -> None:
    """Do what may be refused with an error of agentnb's."""
    try:
        act()
    except AgentnbError as error:
        check_told(str(error))
