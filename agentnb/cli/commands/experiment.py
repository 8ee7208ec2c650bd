"""``agentnb experiment``: runs an experiment from a file."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.cli.command import DONE, FAILED, INTERRUPTED, INVALID, Command, Outcome, argument, file, text_of
from agentnb.cli.inputs import find_names, load_file
from agentnb.cli.mcp_files import servers_of
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.second_interrupt import second_interrupt_kills
from agentnb.cli.terminal.terminal_questions import is_at_terminal
from agentnb.cli.workflow_options import ALLOW_URL, MCP
from agentnb.errors import AgentnbError, UrlNotAllowed
from agentnb.experiments.experiment import Experiment
from agentnb.experiments.form.python_source import experiment_in
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.planning.variants import read_models
from agentnb.experiments.results.comparison import compare
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.views.comparison_view import comparison_text
from agentnb.experiments.views.design_view import design_text
from agentnb.experiments.views.results_view import results_text
from agentnb.models.destinations.allowed_urls import allow_urls
from agentnb.models.registry import check_destinations
from agentnb.workflow.files.nested_files import file_text, path_of

MISSING = INVALID
"""Exit code if runs are missing."""
SECOND = "Stopping. Ctrl-C again ends agentnb at once; the same command continues"


def experiment(args: Namespace) -> Outcome:
    """Run an experiment from a file of YAML or Python; run again, it makes the missing runs."""
    try:
        with servers_of(args.mcp, asks=is_at_terminal()):
            return _outcome(args)
    except UrlNotAllowed:  # the user may be asked, and then the command restarts
        raise
    except AgentnbError as error:
        text = error.text_for(SHELL)
        return Outcome("", FAILED, text) if "\n" in text else Outcome("", FAILED, last=text)


def _outcome(args: Namespace) -> Outcome:
    loaded = _read(args)
    allow_urls(args.allow_urls)
    check_destinations(_models_of(loaded))
    if args.design:
        return Outcome(f"{design_text(loaded.design())}\n")
    live = None
    try:
        with second_interrupt_kills(SECOND), redirect_stdout(sys.stderr):
            live = loaded.start()
            results = live.wait()
    except KeyboardInterrupt:
        progress = "" if live is None else f" after {live.progress.done:,} of {live.progress.total:,} runs"
        return Outcome("", INTERRUPTED, last=f"The experiment was stopped{progress}. To continue:", command=_again(args))
    if results.missing:
        at_budget = f" at the budget of ${loaded.budget:g}; raise it" if live.progress.state == "budget" else ""
        message = f"{results.missing:,} runs are missing{at_budget}. To complete them:"
        return Outcome(f"{results_text(results)}\n", MISSING, last=message, command=_again(args))
    if results.look is not None and not results.look.is_last:
        return Outcome("\n".join(_render(results)), DONE, last="To continue to the next look:", command=_again(args))
    return Outcome("\n".join(_render(results)), DONE)


def _read(args: Namespace) -> Experiment:
    path = path_of(args.file)
    if path.suffix == ".py":
        loaded = experiment_in(load_file(path), args.name)
    else:
        loaded = read_experiment(file_text(path), find_names(args.tools), path=path, commands=SHELL)
    return replace(loaded, folder=args.folder) if args.folder else loaded


def _render(results: Results) -> Iterator[str]:
    yield f"{results_text(results)}\n"
    if len(results.variants) > 1:
        for comparison in compare(results):
            yield f"{comparison_text(comparison)}\n"


def _models_of(loaded: Experiment) -> Iterator[Any]:
    """Yield the models that the experiment names: its own, and those of its agents."""
    yield from read_models(loaded.models)
    variants = loaded.variants.values() if isinstance(loaded.variants, Mapping) else loaded.variants
    for variant in (loaded.agent, *variants):
        yield variant.model if isinstance(variant, Agent) else variant.get("model") if isinstance(variant, Mapping) else None


def _again(args: Namespace) -> str:
    options = {"--folder": [args.folder] if args.folder else [], "--tools": args.tools}
    options |= {"--mcp": args.mcp, "--allow-url": args.allow_urls}
    options["--name"] = [args.name] if args.name else []
    words = [str(word) for option, values in options.items() for value in values for word in (option, value)]
    return shlex.join(["agentnb", "experiment", str(args.file), *words])


EXPERIMENT = Command(
    experiment,
    (
        argument(
            "file", metavar="FILE", type=file, help="a YAML file with tasks: and variants:, or a Python file with an Experiment"
        ),
        argument("--folder", metavar="FOLDER", type=Path, help="folder for rows and logs, instead of the experiment's"),
        argument(
            "-t",
            "--tools",
            metavar="PY",
            action="append",
            default=[],
            type=text_of,
            help="a Python file or module whose tools, checks, tasks and agents a YAML file names; repeatable",
        ),
        argument("--name", metavar="NAME", default="", help="which experiment of a Python file that has several"),
        argument("--design", action="store_true", help="print runs, cost, time and the minimum detectable effect; run nothing"),
        MCP,
        ALLOW_URL,
    ),
    "agentnb experiment guidance.yaml --tools my_tools.py --design\n"
    "agentnb experiment guidance.py --folder results/guidance\n\n"
    "exit codes: 0 all runs are complete, 1 an error, 2 runs are missing, 130 stopped: the same command continues",
)
