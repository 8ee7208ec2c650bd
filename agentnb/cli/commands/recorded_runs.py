"""Commands for recorded runs: ``agentnb runs``, ``show``, ``table`` and ``replay``."""

from __future__ import annotations

from argparse import Namespace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from agentnb import tables
from agentnb.cli.command import LOOSE, OUTPUT, Command, argument, count, file, text_of
from agentnb.cli.commands.run_list import files_text
from agentnb.cli.commands.stored_runs import choose_run, holds_other_files, runs_named, source_of, store_in, write_file
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.standard_streams import complain
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.lists.browser import problem_lines
from agentnb.display.lists.history_list import history_text, list_title, matches
from agentnb.display.lists.replay_view import replay_text
from agentnb.errors import SettingsError, StoreError, suggest_names
from agentnb.guidance.sets import BUILT_IN, GuidanceSet
from agentnb.interchange.files import iter_traces, load_traces
from agentnb.interchange.trace_file import Problem
from agentnb.rerun.replay import replay as replay_run
from agentnb.session.default_store import default_store
from agentnb.store.redacting import redacted
from agentnb.store.store import Store
from agentnb.store.summaries import families
from agentnb.workflow.files.nested_files import path_of

SHOWN = 20
"""Number of runs listed without ``-n``."""
MAX_PROBLEMS = 5
"""Maximum number of skipped files that are named; any others are only counted."""
NO_LOG = "no readable run log"


def runs(args: Namespace) -> str:
    """List the runs of a folder, newest first, or those of a file of any format."""
    if args.folder is not None and holds_other_files(args.folder):
        return _runs_of_files(args)
    store, left_out = store_in(args.folder), list[str]()
    all_families = families(store.each_summary(left_out), set(store.ids()))
    lists = (family if args.nested else family[:1] for family in all_families)
    matching = (family for family in lists if any(matches(run, args.words, args.outcome) for run in family))
    lines = list(chain.from_iterable(islice(matching, args.most)))
    for line in problem_lines([Problem(name, "", NO_LOG) for name in left_out], MAX_PROBLEMS, see_all="", commands=SHELL):
        complain(line)
    count, folder = len(store.ids()), store.shown_folder
    summary = list_title(
        lines, count=count, folder=folder, most=args.most, wanted=[*(["--failed"] if args.outcome else []), *args.words]
    )
    name = "ID" if args.folder is None else str(Path(folder) / "ID.jsonl")
    hints = [f"Show one: agentnb show {name}"] if lines else []
    hints += [f"Resume an interrupted one: agentnb recover {name}"] if any(line.can_be_recovered for line in lines) else []
    hints += (
        [f"Answer one that is waiting: agentnb answer {name} ANSWER"] if any(line.can_be_answered for line in lines) else []
    )
    return history_text(lines, ". ".join([summary, *hints])) + "\n"


def _runs_of_files(args: Namespace) -> str:
    """List the numbered runs of a file, or of a folder of files, in any format."""
    problems: list[Problem] = []
    traces = [*iter_traces(args.folder, strict=False, problems=problems)]
    for line in problem_lines(problems, MAX_PROBLEMS, see_all="", commands=SHELL):
        complain(line)
    return files_text(
        traces,
        str(args.folder),
        words=args.words,
        outcome=args.outcome,
        most=args.most,
        is_folder=path_of(args.folder).is_dir(),
    )


def show(args: Namespace) -> str:
    """Show a run from a file of any format as text, or as a self-contained HTML page."""
    traces = runs_named(args.run, loose=args.loose)
    run = choose_run(traces, args.which, args.run)
    if run is None:
        if args.html or args.output is not None:
            raise SettingsError(f"{args.run} contains {len(traces):,} runs", f"Name one: agentnb show {args.run} --run 1")
        return files_text(traces, args.run, most=len(traces))
    html = args.html or (args.output is not None and args.output.suffix.lower() in (".html", ".htm"))
    text = page_html(redacted(run)) if html else run_text(run, commands=SHELL) + "\n"
    return write_file(text.encode("utf-8", "replace"), args.output, "The run") if args.output else text


def table(args: Namespace) -> str:
    """Write a table of runs, as CSV or Parquet."""
    if args.name not in tables.NAMES:
        raise SettingsError(f"There is no table {args.name}", suggest_names(args.name, tables.NAMES))
    kind = ".csv" if args.output is None else args.output.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SettingsError(f"{args.output} is neither CSV nor Parquet", "End the name with .csv or .parquet")
    sources: list[Path | Store] = [source_of(path) for path in args.paths]
    source = sources[0] if len(sources) == 1 else sources or default_store()[0]
    frame = getattr(tables, args.name)(load_traces(source, strict=False) if args.loose else source)
    if kind == ".parquet":
        return write_file(_parquet(frame, args.output), args.output, "The table")
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return write_file(text.encode("utf-8", "replace"), args.output, "The table") if args.output else text


def replay(args: Namespace) -> str:
    """Show what other guidance, another policy or limit would have done with a recorded run of any product."""
    traces = runs_named(args.run, loose=False)
    run = choose_run(traces, args.which, args.run)
    if run is None:
        raise SettingsError(f"{args.run} contains {len(traces):,} runs", f"Name one: agentnb replay {args.run} --run 1")
    replayed = replay_run(
        run,
        guidance=_guidance(args.guidance),
        policy=args.policy,
        detect=args.detect,
        limits={} if args.max_rounds is None else {"max_rounds": args.max_rounds},
        workflow_mode=True if args.workflow_mode else None,
    )
    return replay_text(replayed) + "\n"


def _guidance(name: str | None) -> str | GuidanceSet | None:
    """Return the name of a built-in guidance set, or the set read from a Markdown file."""
    if name is None or name in BUILT_IN:
        return name
    path = path_of(name)
    if not path.is_file():
        raise SettingsError(
            f"There is no guidance set {name}", f"Name {', '.join(BUILT_IN)} or a Markdown file that defines one"
        )
    return GuidanceSet.from_markdown("-".join(path.stem.split()), path.read_text("utf-8", "replace"))


def _parquet(frame: Any, path: Path) -> bytes:
    try:
        return frame.to_parquet(None, index=False, engine="pyarrow")  # type: ignore[no-any-return]  # without a path: bytes
    except ImportError as error:
        problem = f"{path} cannot be written: Parquet needs the pyarrow package"
        raise StoreError(problem, "pip install 'agentnb[scale]', or name a file that ends in .csv") from error


RECORDED: dict[str, Command] = {
    "runs": Command(
        runs,
        (
            argument(
                "folder",
                nargs="?",
                metavar="FOLDER",
                type=file,
                help="a folder of run logs, or one with .agentnb/runs in it; or a file or folder of any format, or an example",
            ),
            argument(
                "-n", dest="most", metavar="N", type=count, default=SHOWN, help=f"maximum number of runs; default: {SHOWN}"
            ),
            argument(
                "-w",
                "--word",
                dest="words",
                metavar="WORD",
                action="append",
                default=[],
                help="only runs with this word in status, model or prompt; may be given several times",
            ),
            argument(
                "--failed",
                dest="outcome",
                action="store_const",
                const="failed",
                help="only runs that did not do their task, by a check (--expect), a label or the trace, even if Done",
            ),
            argument("--nested", action="store_true", help="also list the runs nested in each, below it"),
        ),
        "agentnb runs\nagentnb runs project -n 5 -w failed\nagentnb runs results.json --failed",
    ),
    "show": Command(
        show,
        (
            argument(
                "run",
                metavar="ID|FILE",
                type=text_of,
                help="a file of any format, an example such as complex-fails, or the id of a run here (its end is enough)",
            ),
            argument("--run", dest="which", metavar="NUMBER|ID", type=text_of, help="which run, if the file has several"),
            LOOSE,
            argument("--html", action="store_true", help="an HTML page"),
            argument("-o", help="write to this file; HTML if it ends with .html", **OUTPUT),
        ),
        "agentnb show 1507efae80\nagentnb show run.jsonl -o run.html\nagentnb show traces.json --run 3",
    ),
    "table": Command(
        table,
        (
            argument("name", metavar="NAME", help=", ".join(tables.NAMES)),
            argument(
                "paths",
                nargs="*",
                metavar="PATH",
                type=text_of,
                help="files of any format, folders, patterns, examples or ids; default: the runs in this folder",
            ),
            LOOSE,
            argument(
                "-o", help="write to this file: .csv, or .parquet (needs pyarrow); default: CSV to standard output", **OUTPUT
            ),
        ),
        "agentnb table usage > usage.csv\nagentnb table runs a/.agentnb/runs 'b/*.jsonl' -o runs.parquet",
    ),
    "replay": Command(
        replay,
        (
            argument("run", metavar="ID|FILE", type=text_of, help="a file of any format, an example, or the id of a run here"),
            argument(
                "--run", dest="which", metavar="N", type=text_of, help="its number in the file, from 1, or the end of its id"
            ),
            argument("-g", "--guidance", metavar="NAME", type=text_of, help="a guidance set: matrix, off, or a Markdown file"),
            argument("-p", "--policy", metavar="NAME", type=text_of, help="matrix, minimal or chat"),
            argument("-d", "--detect", metavar="PRESET", type=text_of, help="a preset of detectors, such as default"),
            argument("--workflow-mode", action="store_true", help="use the workflow mode of the policy matrix"),
            argument("--max-rounds", metavar="N", type=count, help="use this round limit"),
        ),
        "agentnb replay complex-fails --workflow-mode\nagentnb replay run.jsonl -g brief.md -p minimal",
    ),
}
"""Commands by name."""
