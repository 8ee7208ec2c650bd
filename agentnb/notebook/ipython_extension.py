"""The IPython extension, registered by ``%load_ext agentnb`` and removed by unloading.

Loading it imports very little of agentnb: each magic, view and command is imported on first use.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import MAGIC_NO_VAR_EXPAND_ATTR

from agentnb.advice import USUAL_OUT
from agentnb.errors import RENDERER, AgentnbError
from agentnb.notebook.cells import call_streams
from agentnb.notebook.cells.begun_cell import BegunCell, begin, begun_cell
from agentnb.runtime.host.host import Host, current_host, keep_host
from agentnb.runtime.host.process_end import process_end
from agentnb.runtime.questions.model_code import running_cells
from agentnb.tools.builtin.notebook import cell_outputs

if TYPE_CHECKING:
    from agentnb.notebook.cells.cell_host import CellHost
    from agentnb.session.session import Session

_SESSION = "_agentnb_session"
_UNDO = "_agentnb_unload"
_NOTEBOOK = "_agentnb_notebook"

LOG_SECONDS = 2.0
"""Seconds that remaining runs have to finish their logs: Jupyter kills a kernel 2.5 s after announcing its end."""
MAGICS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "agentnb.notebook.magics:AgentMagics": {"line": ("agent", "replay", "traces"), "cell": ("agent", "context", "guidance")},
    "agentnb.notebook.workflow_magic:WorkflowMagics": {"cell": ("workflow", "plan")},
    "agentnb.notebook.experiments.magic:ExperimentMagics": {"cell": ("experiment",)},
}
"""Magics by class, as ``MODULE:CLASS``."""
BLANK = ("%%agent", "%%guidance", "%%workflow", "%%plan", "%%experiment")
"""Magics that report a missing body themselves."""
COMPLETED = ("%agent ", "%replay ", "%traces ", "%%agent ", "%%experiment ", "%%plan ", "%%workflow ")
"""Beginnings of lines that have tab completion."""
VIEWS = {
    "agentnb.detect.run:Run": "agentnb.notebook.shown_values:run",
    "agentnb.experiments.design:Design": "agentnb.experiments.views.design_view:design",
    "agentnb.experiments.pilot:Pilot": "agentnb.experiments.views.design_view:pilot",
    "agentnb.experiments.results.comparison:Comparison": "agentnb.experiments.views.comparison_view:comparison",
    "agentnb.experiments.results.comparison:Comparisons": "agentnb.experiments.views.comparison_view:comparisons",
    "agentnb.experiments.results.experiment_results:Results": "agentnb.notebook.experiments.shown_results:results",
    "agentnb.experiments.running.control:Progress": "agentnb.experiments.views.progress_view:progress",
    "agentnb.experiments.running.live_experiment:LiveExperiment": "agentnb.experiments.views.progress_view:live",
    "agentnb.experiments.search.search_result:SearchResult": "agentnb.experiments.search.search_view:search",
    "agentnb.rerun.run_diff:RunDiff": "agentnb.display.lists.diff_view:diff",
    "agentnb.rerun.replay_result:Replay": "agentnb.display.lists.replay_view:replay",
    "agentnb.runtime.host.live_run:LiveRun": "agentnb.notebook.shown_values:live",
    "agentnb.workflow.plan:Plan": "agentnb.notebook.shown_values:plan",
    "agentnb.workflow.workflow:Workflow": "agentnb.notebook.shown_values:workflow",
}
"""Views by type, as ``MODULE:NAME`` for the functions ``NAME_html`` and ``NAME_text``."""
RUNS = ("agentnb.interchange.files", "Runs")


_making = threading.Lock()


def session_of(shell: Any) -> Session:
    """Return the kernel's session, creating it on first use. Loads the extension if necessary."""
    with _making:
        if not hasattr(shell, _UNDO):
            shell.extension_manager.load_extension("agentnb")
        session: Session | None = getattr(shell, _SESSION, None)
        if session is None:
            from agentnb.session.session import Session

            session = Session()
            setattr(shell, _SESSION, session)  # kept when the extension is loaded again: its runs continue
        session.notebook = getattr(shell, _NOTEBOOK)
        return session


def notebook_name(variables: Mapping[str, Any], folder: Path) -> str:
    """Return the path of the notebook of a kernel started in this folder (relative if inside the folder), or "".

    Jupyter's server and VS Code each pass it in a variable. A console has a session but no file.
    """
    file = variables.get("__vsc_ipynb_file__") or variables.get("__session__")
    if not isinstance(file, str) or not Path(file).suffix:
        return ""
    path = Path(file)
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


class DeferredMagic:
    """A magic that is imported when it is first called or its help is requested."""

    def __init__(self, shell: InteractiveShell, place: str, kind: str, name: str) -> None:
        self._shell, self._place, self._kind, self._name = shell, place, kind, name

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        magics = self._shell.magics_manager.magics[self._kind]
        if magics.get(self._name) is self:
            self._shell.register_magics(_at(self._place)(self._shell, session_of(self._shell)))  # replaces this one
        magic: Callable[..., Any] = magics[self._name]
        return magic

    def getdoc(self) -> str | None:
        """Return its help, for ``%%agent?``."""
        return self.__wrapped__.__doc__

    def __call__(self, line: str, *cell: str) -> Any:
        """Call the magic."""
        magic = self.__wrapped__
        if not getattr(magic, MAGIC_NO_VAR_EXPAND_ATTR, False):
            line = self._shell.var_expand(line, 2)  # with the names in the frame of IPython's caller
        return magic(line, *cell)


setattr(DeferredMagic, MAGIC_NO_VAR_EXPAND_ATTR, True)


def _at(location: str) -> Any:
    """Return the object at ``MODULE:NAME``."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def blank_body(lines: list[str]) -> list[str]:
    """Add a blank body to a bare ``%%agent`` line: otherwise IPython rejects the cell before we can report it."""
    if lines and lines[0].startswith(BLANK) and not "".join(lines[1:]).strip():
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


def bare_run(variables: Mapping[str, Any], lines: list[str]) -> list[str]:
    """Show the status for a cell containing only ``run`` if no such variable exists: IPython would take it for %run."""
    return ["%agent status\n"] if "".join(lines).strip() == USUAL_OUT and USUAL_OUT not in variables else lines


def command_help(lines: list[str]) -> list[str]:
    """Show the help of a command for ``%agent permissions?``: IPython would take the command for a Python name."""
    match = re.fullmatch(r"(%agent \w+) ?\?+\s*", "".join(lines))
    return [f"{match[1]} --help\n"] if match else lines


def load(shell: InteractiveShell) -> None:
    """Register magics, completion and the display of a `Run`."""
    unload(shell)
    undo: list[Callable[[], object]] = []
    setattr(shell, _UNDO, undo)
    setattr(shell, _NOTEBOOK, notebook_name(shell.user_ns, Path.cwd()))
    magics = [(location, kind, name) for location, names in MAGICS.items() for kind in names for name in names[kind]]
    for location, kind, name in magics:
        shell.register_magic_function(DeferredMagic(shell, location, kind, name), kind, name)  # type: ignore[arg-type]  # untyped
        undo.append(partial(shell.magics_manager.magics[kind].pop, name, None))
    for transformer in (partial(bare_run, shell.user_ns), blank_body, command_help):
        shell.input_transformers_cleanup.insert(0, transformer)
        undo.append(partial(_remove, shell.input_transformers_cleanup, transformer))
    if shell.Completer is not None:
        matcher = _matcher(shell)
        shell.Completer.custom_matchers.append(matcher)
        undo.append(partial(_remove, shell.Completer.custom_matchers, matcher))
    hooks = {
        "pre_run_cell": lambda info: _begin_cell(shell, info.cell_id or info.raw_cell or "", info),
        "post_run_cell": lambda result: _end_cell(shell, result.info),
    }
    for event, hook in hooks.items():
        shell.events.register(event, hook)
        undo.append(partial(shell.events.unregister, event, hook))
    if getattr(shell, "kernel", None) is not None:
        _begin_cell(shell)  # the cell that loads the extension
        process_end.is_watched = True
        shell.observe(_leave_runs, "exit_now")
        undo.append(partial(shell.unobserve, _leave_runs, "exit_now"))
    else:
        begin(shell, _new_cell(shell, ""))
    setattr(AgentnbError, RENDERER, lambda error: _traceback(shell, error))
    undo.append(partial(delattr, AgentnbError, RENDERER))
    _register_views(shell, undo)


def _remove(values: list[Any], value: object) -> None:
    with suppress(ValueError):  # already removed by other code
        values.remove(value)


def _matcher(shell: InteractiveShell) -> Callable[[CompletionContext], SimpleMatcherResult]:
    @context_matcher()
    def agentnb_matcher(context: CompletionContext) -> SimpleMatcherResult:
        if not context.full_text.split("\n")[context.cursor_line].startswith(COMPLETED):
            return {"completions": [], "suppress": False}
        from agentnb.notebook.completion import complete

        return complete(context, shell, session_of(shell))

    return agentnb_matcher  # type: ignore[no-any-return]  # the decorator is untyped


def _new_cell(shell: Any, source: str) -> BegunCell:
    def open_host() -> CellHost:
        from agentnb.notebook.cells.notebook_runs import cell_runs

        return cell_runs(shell, session_of(shell)).new_cell()

    return BegunCell(source, open_host)


def _begin_cell(shell: Any, source: str = "", info: Any = None) -> None:
    """Assign runs that the next cell's Python code starts to that cell. ``source``: the cell's id or text.

    ``info``: IPython's execution info, or None for the cell that loads the extension.
    """
    if info is not None:
        running_cells[:] = [*filter(None, running_cells), info]
    cell = _new_cell(shell, source)
    begin(shell, cell)
    current_host.set(cell.host)
    if getattr(shell, "kernel", None) is not None:
        cell_outputs.begin_cell(shell)
        call_streams.install(partial(cell_outputs.note_printed, shell))


def _end_cell(shell: Any, info: Any) -> None:
    """Show runs that have not been shown yet."""
    running_cells[:] = [cell_info for cell_info in running_cells if cell_info not in (None, info)]
    if (host := begun_cell(shell).made) is not None:
        host.decide()
    keep_host(Host())
    cell_outputs.end_cell(shell)


def _leave_runs(change: Any) -> None:
    """Detach the runs of a kernel that is ending. Called on its control thread."""
    if change["new"]:
        session: Session | None = getattr(change["owner"], _SESSION, None)
        live_runs = [] if session is None else session.leave()
        process_end.announce()
        if live_runs:
            from agentnb.runtime.host.live_run import wait_for_ends

            wait_for_ends(live_runs, LOG_SECONDS)


def _traceback(shell: Any, error: BaseException) -> list[str]:
    from agentnb.notebook.magic_errors import lines_without_our_frames

    return lines_without_our_frames(shell, error)


def _register_views(shell: InteractiveShell, undo: list[Callable[[], object]]) -> None:
    """Register the display of runs and of values derived from runs."""
    display: Any = shell.display_formatter  # a running shell has one
    html, plain = display.formatters["text/html"], display.formatters["text/plain"]
    for location, view in VIEWS.items():
        module_and_name = tuple(location.split(":"))
        html.for_type_by_name(*module_and_name, partial(_view, f"{view}_html"))
        plain.for_type_by_name(*module_and_name, partial(_print, f"{view}_text"))
        undo += [partial(_forget_view, formatter, module_and_name) for formatter in (html, plain)]
    # A list's own printer would take precedence over the bundle.
    plain.for_type_by_name(*RUNS, partial(_print, "agentnb.notebook.shown_values:runs_text"))
    display.mimebundle_formatter.for_type_by_name(*RUNS, partial(_view, "agentnb.notebook.shown_values:runs_bundle"))
    undo += [partial(_forget_view, formatter, RUNS) for formatter in (plain, display.mimebundle_formatter)]


def _view(location: str, value: Any, **_include_and_exclude: Any) -> Any:
    return _at(location)(value)


def _print(location: str, value: Any, printer: Any, cycle: bool) -> None:
    printer.text(_view(location, value))


def _forget_view(formatter: Any, named: tuple[str, ...]) -> None:
    """Remove the view of a type. After first use, IPython stores it under the type itself."""
    formatter.deferred_printers.pop(named, None)
    for viewed in [kind for kind in formatter.type_printers if (kind.__module__, kind.__name__) == named]:
        del formatter.type_printers[viewed]


def unload(shell: InteractiveShell) -> None:
    """Remove everything that `load` registered; live runs continue."""
    for step in getattr(shell, _UNDO, []):
        step()
    if hasattr(shell, _UNDO):
        delattr(shell, _UNDO)
    if getattr(shell, _SESSION, None) is not None:
        from agentnb.notebook.card.replay_button import replay_buttons

        replay_buttons().close()
    keep_host(Host())
    call_streams.uninstall()
    cell_outputs.leave_outputs(shell)
