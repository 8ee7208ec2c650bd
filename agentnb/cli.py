"""The command line: ``agentnb runs``, ``agentnb show``, ``agentnb table``, ``agentnb replay``.

A command is a function from its arguments to the text for standard output, and a row of `COMMANDS`. Text goes to standard
output, one line about an error to standard error. The exit code is 0, 2 for wrong usage, and 1 for every other failure.
"""

from __future__ import annotations

import os
import re
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
from agentnb.display.browser import problems_told
from agentnb.display.history import history_text, list_told, matches
from agentnb.display.labels import clean
from agentnb.display.page import page_html
from agentnb.display.replay_view import replay_text
from agentnb.display.run_list import files_text
from agentnb.display.text import run_text
from agentnb.errors import AgentnbError, SettingsError, StoreError, TraceError, near
from agentnb.guidance.sets import BUILT_IN, GuidanceSet
from agentnb.rerun.replay import replay as replay_run
from agentnb.session.places import default_store
from agentnb.traces import tables
from agentnb.traces.files import is_there, iter_traces, load_traces
from agentnb.traces.store import Store
from agentnb.traces.summaries import families
from agentnb.traces.trace_file import Problem
from agentnb.traces.writing import write_whole

SHOWN = 20
"""Runs listed by default, without ``-n``."""
FAILED, WRONG_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
"""Exit codes; the last two are those of a program that the signal ended."""
IN_A_SHELL = (
    (re.compile(r"%agent history lists"), "agentnb runs lists"),
    (re.compile(r"What can be read of it: load_traces\(\.\.\., strict=False\)"), "What can be read of it: --loose"),
    (re.compile(r"Load all (?:of them|runs in it) with load_traces\('(.*?)'\)"), r"agentnb runs \1 lists them"),
    (re.compile(r": \.problems has all"), ""),
    (re.compile(r" load_traces\(\.\.\.\)\.problems lists all of them"), ""),
)
"""Parts of hints as a notebook or Python has them, and as the command line's."""
MAX_PROBLEMS = 5
"""Files left out of a list that are named; of more, only the count is."""


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
    """List the runs of a folder, newest first, or those of a file of any format."""
    if given.folder is not None and _holds_other_files(given.folder):
        return _runs_of_files(given)
    store = _store(given.folder)
    found = families(store.each_summary(), set(store.ids()))
    lists = (family if given.nested else family[:1] for family in found)
    matching = (some for some in lists if any(matches(one, given.words) for one in some))
    lines = list(chain.from_iterable(islice(matching, given.most)))
    count, folder = len(store.ids()), store.shown_folder
    told = list_told(lines, count=count, folder=folder, most=given.most, wanted=given.words)
    name = "ID" if given.folder is None else str(Path(folder) / "ID.jsonl")
    return history_text(lines, f"{told}. Show one: agentnb show {name}" if lines else told) + "\n"


def _runs_of_files(given: Namespace) -> str:
    """List the runs of a file, or of a folder of files, of any format, with their numbers."""
    problems: list[Problem] = []
    found = [*iter_traces(given.folder, strict=False, problems=problems)]
    for told in problems_told(problems, MAX_PROBLEMS):
        _complain(told)
    return files_text(found, str(given.folder), words=given.words, most=given.most, is_folder=_path(given.folder).is_dir())


def show(given: Namespace) -> str:
    """Show a run of a file of any format as text, or as a self-contained page of HTML."""
    found = _runs_named(given.run, loose=given.loose)
    run = _chosen(found, given.which, given.run)
    if run is None:
        if given.html or given.output is not None:
            raise SettingsError(f"{given.run} holds {len(found):,} runs", f"Name one: agentnb show {given.run} --run 1")
        return files_text(found, given.run, most=len(found))
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
    source = sources[0] if len(sources) == 1 else sources or default_store()[0]
    frame = getattr(tables, given.name)(load_traces(source, strict=False) if given.loose else source)
    if kind == ".parquet":
        return _written(_parquet(frame, given.output), given.output, "The table")
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return _written(text.encode("utf-8", "replace"), given.output, "The table") if given.output else text


def replay(given: Namespace) -> str:
    """Show what other guidance, another policy or limit would have done with a recorded run of any product."""
    known = _runs_named(given.run, loose=False)
    run = _chosen(known, given.which, given.run)
    if run is None:
        raise SettingsError(f"{given.run} holds {len(known):,} runs", f"Name one: agentnb replay {given.run} --run 1")
    found = replay_run(
        run,
        guidance=_guidance(given.guidance),
        policy=given.policy,
        detect=given.detect,
        limits={} if given.max_rounds is None else {"max_rounds": given.max_rounds},
        workflow_mode=True if given.workflow_mode else None,
    )
    return replay_text(found) + "\n"


def _guidance(name: str | None) -> str | GuidanceSet | None:
    """Return the name of a built-in set, or the set in a Markdown file."""
    if name is None or name in BUILT_IN:
        return name
    path = _path(name)
    if not path.is_file():
        raise SettingsError(f"There is no guidance set {name}", f"Name {', '.join(BUILT_IN)} or a Markdown file of one")
    return GuidanceSet.from_markdown("-".join(path.stem.split()), path.read_text("utf-8", "replace"))


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


def _holds_other_files(path: Path) -> bool:
    """Return whether this is a file, an example, or a folder in which no run log of agentnb is found."""
    folder = _path(path)
    if not folder.is_dir():
        return is_there(path)
    store = Store(_runs_within(folder))
    return next(iter(store.each_summary()), None) is None and any(folder.rglob("*.*"))


def _runs_named(name: str, *, loose: bool) -> list[Run]:
    """Return the runs of a file or an example, or the run with this id."""
    path = _path(name)
    if path.is_dir():
        raise SettingsError(f"{path} is a folder", f"agentnb runs {path} lists its runs")
    if not (_is_file(path) or is_there(name)):
        return [default_store()[0].load(name)]
    found = load_traces(name, strict=not loose)
    if not found:
        raise TraceError(f"{name} holds no run")
    return found


def _chosen(found: Sequence[Run], which: str | None, name: str) -> Run | None:
    """Return the run with this number from 1, or the end of this id; without, the only one that is not nested in another."""
    if not which:
        ids = {run.id for run in found}
        fits = [run for run in found if run.parent_id not in ids]
    elif which.isdecimal() and 0 < int(which) <= len(found):
        fits = [found[int(which) - 1]]
    else:
        fits = [run for run in found if run.id.endswith(which)]
    if which and len(fits) != 1:
        many = f"{len(fits):,} runs" if fits else "no run"
        raise SettingsError(f"{name} has {many} {which}", f"agentnb runs {name} lists its {len(found):,} runs")
    return fits[0] if len(fits) == 1 else None


def _source(name: str) -> Path:
    """Return a file, a folder or a glob as it is, and the file of a run that is named by its id."""
    path = _path(name)
    if path.is_dir():
        return _runs_within(path)
    if _is_file(path) or has_magic(name) or is_there(name):
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
    for notebook, shell in IN_A_SHELL:
        text = notebook.sub(shell, text)
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


_LOOSE = _argument("--loose", action="store_true", help="read of damaged files what can be read")
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
                help="a folder of run logs, or one that holds .agentnb/runs; or a file or folder of any format, or an example",
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
            _argument(
                "run",
                metavar="ID|FILE",
                type=_text,
                help="a file of any format, an example such as complex-fails, or the id of a run here (its end is enough)",
            ),
            _argument("--run", dest="which", metavar="NUMBER|ID", type=_text, help="which run of a file of several"),
            _LOOSE,
            _argument("--html", action="store_true", help="a page of HTML"),
            _argument("-o", help="write to this file; HTML if it ends with .html", **_OUTPUT),
        ),
        "agentnb show 1507efae80\nagentnb show run.jsonl -o run.html\nagentnb show traces.json --run 3",
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
                help="files of any format, folders, patterns, examples or ids; default: the runs of this folder",
            ),
            _LOOSE,
            _argument(
                "-o", help="write to this file: .csv, or .parquet (needs pyarrow); default: CSV to standard output", **_OUTPUT
            ),
        ),
        "agentnb table usage > usage.csv\nagentnb table runs a/.agentnb/runs 'b/*.jsonl' -o runs.parquet",
    ),
    "replay": Command(
        replay,
        (
            _argument("run", metavar="ID|FILE", type=_text, help="a file of any format, an example, or the id of a run here"),
            _argument(
                "--run", dest="which", metavar="N", type=_text, help="its number in the file, from 1, or the end of its id"
            ),
            _argument("-g", "--guidance", metavar="NAME", type=_text, help="a guidance set: matrix, off, or a Markdown file"),
            _argument("-p", "--policy", metavar="NAME", type=_text, help="matrix or minimal"),
            _argument("-d", "--detect", metavar="PRESET", type=_text, help="a preset of detectors, such as default"),
            _argument("--workflow-mode", action="store_true", help="with workflow mode of the policy matrix"),
            _argument("--max-rounds", metavar="N", type=_count, help="with this limit"),
        ),
        "agentnb replay complex-fails --workflow-mode\nagentnb replay run.jsonl -g brief.md -p minimal",
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
