"""The IPython extension: what ``%load_ext agentnb`` registers, and unloading removes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from agentnb.detect.run import Run
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.many_runs import run_line_html
from agentnb.display.card.text import run_text
from agentnb.display.graph.workflow_graph import graph_html
from agentnb.display.graph.workflow_text import graph_text
from agentnb.display.lists.diff_view import diff_html, diff_text
from agentnb.display.lists.plan_view import plan_html, plan_text
from agentnb.display.lists.replay_view import replay_html, replay_text
from agentnb.display.texts.notebook_commands import USUAL_OUT
from agentnb.display.texts.states import is_going_on
from agentnb.errors import AgentnbError
from agentnb.experiments.design import Design
from agentnb.experiments.pilot import Pilot
from agentnb.experiments.results.comparison import Comparison, Comparisons
from agentnb.experiments.results.results import Results
from agentnb.experiments.running.control import Progress
from agentnb.experiments.running.live import LiveExperiment
from agentnb.experiments.views.comparison_view import comparison_html, comparison_text
from agentnb.experiments.views.design_view import design_html, design_text, pilot_html, pilot_text
from agentnb.experiments.views.progress_view import progress_html, progress_text
from agentnb.experiments.views.results_view import results_html, results_text
from agentnb.interchange.files import Runs
from agentnb.notebook.browser import Browser
from agentnb.notebook.card.replay_button import replay_buttons
from agentnb.notebook.cells import call_streams
from agentnb.notebook.cells.cell_runs import CellRuns, cell_runs
from agentnb.notebook.completion import matcher
from agentnb.notebook.experiments.magic import ExperimentMagics
from agentnb.notebook.frontend import is_attended
from agentnb.notebook.magic_errors import RENDERER, lines_without_our_frames
from agentnb.notebook.magics import AgentMagics
from agentnb.notebook.workflow_magic import WorkflowMagics
from agentnb.rerun.diff import RunDiff
from agentnb.rerun.replay_result import Replay
from agentnb.runtime.host.host import Host, current_host
from agentnb.runtime.host.live import LiveRun, wait_for_ends
from agentnb.runtime.host.process_end import process_end
from agentnb.session.session import Session
from agentnb.tools.builtin.notebook import cell_outputs
from agentnb.workflow.plan import Plan
from agentnb.workflow.workflow import Workflow

_SESSION = "_agentnb_session"
_HOOKS = "_agentnb_hooks"
_TRANSFORMERS = "_agentnb_transformers"

MOMENT = "As it was when this cell ran. Its live card is below the cell that started it"
USUAL_PLAN = "plan"
"""The variable of ``%%plan``."""
LOG_SECONDS = 2.0
"""Seconds in which runs that are left end their logs: Jupyter ends a kernel 2.5 s after it has announced that."""
VIEWS: tuple[tuple[type, Callable[[Any], str], Callable[[Any], str]], ...] = (
    (Comparison, comparison_html, comparison_text),
    (
        Comparisons,
        lambda several: "".join(map(comparison_html, several)),
        lambda several: "\n\n".join(map(comparison_text, several)),
    ),
    (Design, design_html, design_text),
    (LiveExperiment, lambda live: progress_html(live.progress), lambda live: progress_text(live.progress)),
    (Pilot, pilot_html, pilot_text),
    (
        Plan,
        lambda plan: plan_html(plan, _variable(plan, USUAL_PLAN)),
        lambda plan: plan_text(plan, _variable(plan, USUAL_PLAN)),
    ),
    (Progress, progress_html, progress_text),
    (Replay, replay_html, replay_text),
    (Results, results_html, results_text),
    (RunDiff, diff_html, diff_text),
    (Workflow, lambda workflow: graph_html(workflow.declared), lambda workflow: graph_text(workflow.declared)),
)
"""What is shown of each type, as HTML and as text."""


def session_of(shell: Any) -> Session:
    """Return the session of this kernel, after loading the extension if necessary."""
    if getattr(shell, _SESSION, None) is None:
        shell.extension_manager.load_extension("agentnb")
    session: Session = getattr(shell, _SESSION)
    return session


def notebook_name(variables: Mapping[str, Any], folder: Path) -> str:
    """Return the notebook of a kernel that began in this folder, relative to it if inside; empty if it is not known.

    Jupyter's server and VS Code each tell the kernel in a variable. Consoles have a session without a file.
    """
    found = variables.get("__vsc_ipynb_file__") or variables.get("__session__")
    if not isinstance(found, str) or not Path(found).suffix:
        return ""
    path = Path(found)
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


def blank_body(lines: list[str]) -> list[str]:
    """Give a bare ``%%agent`` line a blank body: IPython rejects a cell without one before we can say what is missing."""
    ours = ("%%agent", "%%guidance", "%%workflow", "%%plan", "%%experiment")
    if lines and lines[0].startswith(ours) and not "".join(lines[1:]).strip():
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


def bare_run(variables: Mapping[str, Any], lines: list[str]) -> list[str]:
    """Let a cell that holds only ``run`` say what there is, as long as there is no such variable: IPython takes it for %run."""
    return ["%agent status\n"] if "".join(lines).strip() == USUAL_OUT and USUAL_OUT not in variables else lines


def load(shell: InteractiveShell) -> None:
    """Register magics, completion and the display of a `Run`."""
    unload(shell)
    session = getattr(shell, _SESSION, None) or Session()
    setattr(shell, _SESSION, session)  # kept across a reload: its runs continue
    session.notebook = notebook_name(shell.user_ns, Path.cwd())
    magics = AgentMagics(shell, session)
    shell.register_magics(magics, WorkflowMagics(shell, session), ExperimentMagics(shell, session))
    transformers = [blank_body, partial(bare_run, shell.user_ns)]
    shell.input_transformers_cleanup[:0] = transformers
    setattr(shell, _TRANSFORMERS, transformers)
    if shell.Completer is not None:
        cells = {
            "%%agent": AgentMagics.agent_cell,
            "%%workflow": WorkflowMagics.workflow_cell,
            "%%plan": WorkflowMagics.plan_cell,
            "%%experiment": ExperimentMagics.experiment_cell,
        }
        options = {magic: _long_options(cell) for magic, cell in cells.items()}
        shell.Completer.custom_matchers.append(matcher(shell, session, options))
    runs = cell_runs(shell, session)
    hooks = {
        "pre_run_cell": lambda info: runs.begin_cell(info.cell_id or info.raw_cell or "", info),
        "post_run_cell": lambda result: runs.end_cell(result.info),
    }
    for event, hook in hooks.items():
        shell.events.register(event, hook)
    setattr(shell, _HOOKS, hooks)
    if getattr(shell, "kernel", None) is not None:
        runs.begin_cell()  # the cell that loads the extension
        process_end.is_watched = True
        shell.observe(_leave_runs, "exit_now")
    setattr(AgentnbError, RENDERER, lambda error: lines_without_our_frames(shell, error))
    _register_views(shell, runs)


def _leave_runs(change: Any) -> None:
    """Leave the runs of a kernel that ends. On its control thread."""
    if change["new"]:
        left = session_of(change["owner"]).leave()
        process_end.announce()
        wait_for_ends(left, LOG_SECONDS)


def _register_views(shell: InteractiveShell, runs: CellRuns) -> None:
    """Register the display of runs and of what is made of them."""
    formatters = shell.display_formatter.formatters  # type: ignore[union-attr]  # a running shell has one
    formatters["text/html"].for_type(Run, lambda run: _html(run, runs))
    formatters["text/html"].for_type(LiveRun, lambda live: _live_html(live, runs))
    formatters["text/plain"].for_type(Run, _printed(run_text))
    for shown_type, html, text in VIEWS:
        formatters["text/html"].for_type(shown_type, html)
        formatters["text/plain"].for_type(shown_type, _printed(text))
    # A list has a printer of its own, which would win over the bundle.
    formatters["text/plain"].for_type(Runs, _printed(lambda runs: repr(Browser(runs))))
    shell.display_formatter.mimebundle_formatter.for_type(Runs, _browsed)  # type: ignore[union-attr]  # likewise


def _printed(text: Callable[[Any], str]) -> Callable[[Any, Any, bool], None]:
    """Return the function of IPython's printer for a view as text."""
    return lambda value, printer, cycle: printer.text(text(value))


def _long_options(cell_magic: Any) -> list[str]:
    """Return the long options of a cell magic, from the parser that `magic_arguments` gave it."""
    return [option for action in cell_magic.parser._actions for option in action.option_strings if option.startswith("--")]


def _browsed(runs: Runs, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """Return the trace browser of these runs."""
    return Browser(runs)._repr_mimebundle_()


def _live_html(live: LiveRun, runs: CellRuns) -> str | None:
    """Return the run of a handle as it is now, or one line if its card is right above."""
    run = live.run
    if not run.events or runs.cell.has_card_of(run.id) or not is_going_on(run):
        return _html(run, runs)
    return running_html(run, hint=MOMENT)


def _variable(shown: Run | Plan, usual: str = USUAL_OUT) -> str:
    """Return a variable of the notebook that holds what is shown; without one, that of cells."""
    known: dict[str, Any] = getattr(get_ipython(), "user_ns", {})
    names = [name for name, value in [*known.items()] if value is shown and not name.startswith("_")]
    return usual if usual in names or not names else names[0]


def _html(run: Run, runs: CellRuns) -> str | None:
    """Return the run, or one line if its card is right above."""
    if not run.events:
        return None
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is not None and is_attended(kernel):
        replay_buttons().add(run)
    if runs.cell.has_card_of(run.id):
        return run_line_html(run, "shown above")
    return run_html(run, prompt=True, variable=_variable(run))


def unload(shell: InteractiveShell) -> None:
    """Remove what `load` registered; live runs continue."""
    for event, hook in getattr(shell, _HOOKS, {}).items():
        shell.events.unregister(event, hook)
    setattr(shell, _HOOKS, {})
    with suppress(ValueError):  # it was not observed
        shell.unobserve(_leave_runs, "exit_now")
    current_host.set(Host())
    replay_buttons().close()
    call_streams.uninstall()
    cell_outputs.leave_outputs(shell)
    if RENDERER in vars(AgentnbError):
        delattr(AgentnbError, RENDERER)
    for transformer in getattr(shell, _TRANSFORMERS, []):
        if transformer in shell.input_transformers_cleanup:
            shell.input_transformers_cleanup.remove(transformer)
    for ours in (AgentMagics, WorkflowMagics, ExperimentMagics):
        for kind, names in ours.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
    if shell.Completer is not None:
        matchers = shell.Completer.custom_matchers
        matchers[:] = [one for one in matchers if getattr(one, "__name__", "") != "agentnb_matcher"]
    shell.display_formatter.mimebundle_formatter.type_printers.pop(Runs, None)  # type: ignore[union-attr]  # likewise
    for formatter in ("text/html", "text/plain"):
        for shown in (Run, LiveRun, Runs, *[kind for kind, _, _ in VIEWS]):
            shell.display_formatter.formatters[formatter].type_printers.pop(shown, None)  # type: ignore[union-attr]  # a running shell has one
