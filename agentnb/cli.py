"""The command line: ``agentnb runs``, ``agentnb show``, ``agentnb table``.

A command is a function from its arguments to the text for standard output, and a row of `COMMANDS`. Text goes to standard
output, one line about an error to standard error. The exit code is 0, 2 for wrong usage, and 1 for every other failure.
"""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import has_magic
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from agentnb.detect.run import Run
from agentnb.display.history import history_text, list_told, matches
from agentnb.display.labels import clean
from agentnb.display.page import page_html
from agentnb.display.text import run_text
from agentnb.errors import AgentnbError, SettingsError, StoreError, near
from agentnb.session.places import default_store
from agentnb.traces import tables
from agentnb.traces.files import load_trace
from agentnb.traces.store import Store
from agentnb.traces.summaries import families
from agentnb.traces.writing import write_whole

SHOWN = 20
"""Runs listed by default, without ``-n``."""
FAILED, WRONG_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
"""Exit codes; the last two are those of a program that the signal ended."""
IN_A_SHELL = {"%agent history lists": "agentnb runs lists"}
"""Parts of hints as a notebook's command, and as the command line's."""


class Argument(NamedTuple):
    """An argument or option of a command: its names, and the keywords of `ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    how: dict[str, Any]


class Command(NamedTuple):
    """A command: its function, whose docstring is the help, and its arguments."""

    do: Callable[[Namespace], str]
    arguments: tuple[Argument, ...]
    examples: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments (by default the process's) and return its exit code."""
    try:
        with _warnings_in_a_line():
            _write(_done(list(sys.argv[1:] if argv is None else argv)))
    except BrokenPipeError:  # the reader has what it wanted, as `head`
        _forget_standard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except AgentnbError as error:
        _complain(str(error))
        return WRONG_USAGE if isinstance(error, SettingsError) else FAILED
    except OSError as error:  # such as a full disk behind standard output, or a name that is too long
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        _forget_standard_output()
        return FAILED
    return 0


def _done(argv: list[str]) -> str:
    """Run the command and return the text for standard output."""
    if not argv:
        raise SettingsError(f"Which command? Commands: {', '.join(COMMANDS)}", "agentnb --help explains them")
    if argv[0] not in COMMANDS and not argv[0].startswith("-"):
        raise SettingsError(f"There is no command {argv[0]}", f"{near(argv[0], COMMANDS)} agentnb --help explains them")
    given = _parser().parse_args(argv)
    return given.do(given)  # type: ignore[no-any-return]  # a Command's function


# Commands


def runs(given: Namespace) -> str:
    """List the runs of a folder, newest first."""
    store = _store(given.folder)
    found = families(store.each_summary(), set(store.ids()))
    lists = (family if given.nested else family[:1] for family in found)
    matching = (some for some in lists if any(matches(one, given.words) for one in some))
    lines = list(chain.from_iterable(islice(matching, given.most)))
    count, folder = len(store.ids()), store.shown_folder
    told = list_told(lines, count=count, folder=folder, most=given.most, wanted=given.words)
    name = "ID" if given.folder is None else str(Path(folder) / "ID.jsonl")
    return history_text(lines, f"{told}. Show one: agentnb show {name}" if lines else told) + "\n"


def show(given: Namespace) -> str:
    """Show a run as text, or as a self-contained page of HTML."""
    run = _run(given.run)
    html = given.html or (given.output is not None and given.output.suffix.lower() in (".html", ".htm"))
    text = page_html(run) if html else run_text(run) + "\n"
    return _written(text.encode("utf-8", "replace"), given.output, "The run") if given.output else text


def table(given: Namespace) -> str:
    """Write a table of runs, as CSV or Parquet."""
    if given.name not in tables.NAMES:
        raise SettingsError(f"There is no table {given.name}", near(given.name, tables.NAMES))
    kind = ".csv" if given.output is None else given.output.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SettingsError(f"{given.output} is neither CSV nor Parquet", "End the name with .csv or .parquet")
    sources: list[Path | Store] = [_source(path) for path in given.paths]
    source = sources or default_store()[0]
    frame = getattr(tables, given.name)(sources[0] if len(sources) == 1 else source)
    if kind == ".parquet":
        return _written(_parquet(frame, given.output), given.output, "The table")
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return _written(text.encode("utf-8", "replace"), given.output, "The table") if given.output else text


def _parquet(frame: Any, path: Path) -> bytes:
    try:
        return frame.to_parquet(None, index=False, engine="pyarrow")  # type: ignore[no-any-return]  # without a path: bytes
    except ImportError as error:
        what = f"{path} cannot be written: Parquet needs the package pyarrow"
        raise StoreError(what, "pip install 'agentnb[scale]', or name a file that ends with .csv") from error


# Runs and files


def _store(folder: Path | None) -> Store:
    if folder is None:
        return default_store()[0]
    if not folder.is_dir():
        raise StoreError(f"There is no folder {folder}", "agentnb runs lists those of this folder's .agentnb/runs")
    return Store(_runs_within(folder))


def _runs_within(folder: Path) -> Path:
    """Return the folder, or its ``.agentnb/runs`` if that is where its logs are."""
    within = folder / ".agentnb" / "runs"
    return within if within.is_dir() and not any(folder.glob("*.jsonl")) else folder


def _run(name: str) -> Run:
    path = _path(name)
    if path.is_dir():
        raise SettingsError(f"{path} is a folder", f"agentnb runs {path} lists its runs")
    return load_trace(path) if _is_file(path) else default_store()[0].load(name)


def _source(name: str) -> Path:
    """Return a file, a folder or a glob as it is, and the file of a run that is named by its id."""
    path = _path(name)
    if path.is_dir():
        return _runs_within(path)
    if _is_file(path) or has_magic(name):
        return path
    store = default_store()[0]
    return store.path(store.find(name))


def _path(name: str | Path) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        user = Path(name).parts[0]
        raise SettingsError(f"There is no user {user}, so no home folder", "Write ./~NAME for a file") from error


def _is_file(path: Path) -> bool:
    return path.suffix == ".jsonl" or path.exists()  # an id has no ending


def _written(data: bytes, path: Path, what: str) -> str:
    """Write the file and return nothing for standard output."""
    write_whole(_path(path), [data], what)
    return ""


# Standard output and standard error


def _write(text: str) -> None:
    out = sys.stdout
    if out is None:  # it was closed before the program began
        raise StoreError("There is no standard output", "Write to a file: -o FILE")
    if out.isatty():
        text = clean(text)  # no text of a model or tool may control the terminal
        out.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream
    elif hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", errors="replace")
    out.write(text)
    out.flush()


def _complain(text: str) -> None:
    if sys.stderr is None:  # it was closed before the program began
        return
    for notebook, shell in IN_A_SHELL.items():
        text = text.replace(notebook, shell)
    sys.stderr.write(f"agentnb: {clean(' '.join(text.split()))}\n")


def _forget_standard_output() -> None:
    """Let nothing be written to a closed pipe at exit, which Python would report."""
    with suppress(OSError, ValueError, AttributeError):  # it is not a file, or is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Write warnings to standard error like errors, without the line of code that gave them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: _complain(str(message))
        yield


# The parser


class _Parser(ArgumentParser):
    """Reports wrong usage as every other error is reported: in a line."""

    def error(self, message: str) -> NoReturn:
        """Raise `SettingsError`."""
        raise SettingsError(f"{message[:1].upper()}{message[1:]}", f"{self.prog} --help explains it")


def _count(text: str) -> int:
    if not (text.isdecimal() and len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _text(text: str) -> str:
    if not text.strip():  # as an unset variable of the shell; as a path it would be the current folder
        raise ArgumentTypeError("it is empty")
    return text


def _file(text: str) -> Path:
    return Path(_text(text))


def _argument(*names: str, **how: Any) -> Argument:
    return Argument(names, how)


_OUTPUT = {"metavar": "FILE", "type": _file, "dest": "output"}
COMMANDS: dict[str, Command] = {
    "runs": Command(
        runs,
        (
            _argument(
                "folder",
                nargs="?",
                metavar="FOLDER",
                type=_file,
                help="a folder of run logs, or one that holds .agentnb/runs",
            ),
            _argument("-n", dest="most", metavar="N", type=_count, default=SHOWN, help=f"how many at most; default: {SHOWN}"),
            _argument(
                "-w",
                "--word",
                dest="words",
                metavar="WORD",
                action="append",
                default=[],
                help="only runs with this word in status, model or prompt; may be given several times",
            ),
            _argument("--nested", action="store_true", help="also list the runs nested in each, below it"),
        ),
        "agentnb runs\nagentnb runs project -n 5 -w failed",
    ),
    "show": Command(
        show,
        (
            _argument("run", metavar="ID|FILE", type=_text, help="a run log, or the id of a run here (its end is enough)"),
            _argument("--html", action="store_true", help="a page of HTML"),
            _argument("-o", help="write to this file; HTML if it ends with .html", **_OUTPUT),
        ),
        "agentnb show 1507efae80\nagentnb show run.jsonl -o run.html",
    ),
    "table": Command(
        table,
        (
            _argument("name", metavar="NAME", help=", ".join(tables.NAMES)),
            _argument(
                "paths",
                nargs="*",
                metavar="PATH",
                type=_text,
                help="run logs, folders, patterns or ids; default: the runs of this folder",
            ),
            _argument(
                "-o", help="write to this file: .csv, or .parquet (needs pyarrow); default: CSV to standard output", **_OUTPUT
            ),
        ),
        "agentnb table usage > usage.csv\nagentnb table runs a/.agentnb/runs 'b/*.jsonl' -o runs.parquet",
    ),
}
"""The commands by name. A new one is a function and a row."""


def _version() -> str:
    # Not imported above: to the linter of imports the package would bring all that it names for type checkers.
    return str(import_module("agentnb").__version__)


def _parser() -> ArgumentParser:
    parser = _Parser(prog="agentnb", description="Runs of agents, as agentnb has logged them.")
    parser.add_argument("--version", action="version", version=f"agentnb {_version()}")
    parsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        told = (command.do.__doc__ or "").strip()
        examples = "examples:\n" + "\n".join(f"  {line}" for line in command.examples.splitlines())
        one = parsers.add_parser(
            name, help=told, description=told, epilog=examples, formatter_class=RawDescriptionHelpFormatter
        )
        for argument in command.arguments:
            one.add_argument(*argument.names, **argument.how)
        one.set_defaults(do=command.do)
    return parser
