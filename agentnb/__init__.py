"""agentnb: the lab bench for agent loops inside Jupyter.

In a notebook: ``%load_ext agentnb``, then ``%%agent``. In Python: ``Agent(model=..., tools=[...]).run_sync("...")``.
Importing agentnb loads nothing else: each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from agentnb import detect as detect
    from agentnb import errors as errors
    from agentnb import examples as examples
    from agentnb import plots as plots
    from agentnb import tables as tables
    from agentnb.agent.agent import Agent as Agent
    from agentnb.agent.extension import Extension as Extension
    from agentnb.agent.output import Output as Output
    from agentnb.agent.portable import from_portable as from_portable
    from agentnb.agent.portable import portable as portable
    from agentnb.chat.context_type import ContextType as ContextType
    from agentnb.chat.plans.plans_extension import Plans as Plans
    from agentnb.context.history_settings import History as History
    from agentnb.core.guidance import Guidance as Guidance
    from agentnb.core.messages import ToolCall as ToolCall
    from agentnb.core.todos import Todo as Todo
    from agentnb.detect.detector import Finding as Finding
    from agentnb.detect.run import Run as Run
    from agentnb.display.save import save_trace as save_trace
    from agentnb.experiments.experiment import Experiment as Experiment
    from agentnb.experiments.judging.agreement import agreement as agreement
    from agentnb.experiments.judging.judge import Judge as Judge
    from agentnb.experiments.planning.experiment_checks import within as within
    from agentnb.experiments.results.comparison import compare as compare
    from agentnb.experiments.rounds.lift import lift as lift
    from agentnb.experiments.search.search import optimise as optimise
    from agentnb.guidance.draws import RandomGuidance as RandomGuidance
    from agentnb.guidance.sets import GuidanceSet as GuidanceSet
    from agentnb.interchange.files import iter_traces as iter_traces
    from agentnb.interchange.files import load_trace as load_trace
    from agentnb.interchange.files import load_traces as load_traces
    from agentnb.interchange.importing import import_traces as import_traces
    from agentnb.notebook.browser import browse as browse
    from agentnb.notebook.labelling import label as label
    from agentnb.notebook.panel import panel as panel
    from agentnb.policies.bundle import PolicyBundle as PolicyBundle
    from agentnb.policies.gates.duplicate import DuplicateGuard as DuplicateGuard
    from agentnb.policies.gates.gate_verdicts import Allow as Allow
    from agentnb.policies.gates.gate_verdicts import Ask as Ask
    from agentnb.policies.gates.gate_verdicts import Block as Block
    from agentnb.policies.gates.gate_verdicts import Deny as Deny
    from agentnb.policies.policy_sets import Chat as Chat
    from agentnb.policies.policy_sets import Matrix as Matrix
    from agentnb.policies.policy_sets import Minimal as Minimal
    from agentnb.policies.verdict import Continue as Continue
    from agentnb.policies.verdict import Stop as Stop
    from agentnb.rerun.code.to_code import to_code as to_code
    from agentnb.rerun.code.to_test import to_test as to_test
    from agentnb.rerun.expect import expect as expect
    from agentnb.rerun.fork import fork as fork
    from agentnb.rerun.fork import fork_sync as fork_sync
    from agentnb.rerun.replay import replay as replay
    from agentnb.rerun.reproduce import reproduce as reproduce
    from agentnb.rerun.reproduce import reproduce_sync as reproduce_sync
    from agentnb.rerun.run_diff import diff as diff
    from agentnb.rerun.survey import survey as survey
    from agentnb.runtime.host.run_options import RunOptions as RunOptions
    from agentnb.runtime.runs.orchestration import Orchestration as Orchestration
    from agentnb.runtime.steps.step_orchestrator import StepOrchestrator as StepOrchestrator
    from agentnb.session.recovery import recover as recover
    from agentnb.store.run_labels import labels as labels
    from agentnb.store.store import Store as Store
    from agentnb.tools.ask_person import ask_person as ask_person
    from agentnb.tools.builtin.github.github_group import GitHub as GitHub
    from agentnb.tools.builtin.shell.shell_group import Shell as Shell
    from agentnb.tools.builtin.web.web_group import Web as Web
    from agentnb.tools.function import tool as tool
    from agentnb.tools.mcp.mcp_server import MCPServer as MCPServer
    from agentnb.tools.todos.board import TodoBoard as TodoBoard
    from agentnb.workflow.plan import Plan as Plan
    from agentnb.workflow.plans.plan_checks import validate_plan as validate_plan
    from agentnb.workflow.workflow import Workflow as Workflow

__version__ = "0.1.0"

_NAMES = {
    "Agent": "agentnb.agent.agent",
    "Allow": "agentnb.policies.gates.gate_verdicts",
    "Ask": "agentnb.policies.gates.gate_verdicts",
    "Block": "agentnb.policies.gates.gate_verdicts",
    "Continue": "agentnb.policies.verdict",
    "Deny": "agentnb.policies.gates.gate_verdicts",
    "DuplicateGuard": "agentnb.policies.gates.duplicate",
    "Experiment": "agentnb.experiments.experiment",
    "Extension": "agentnb.agent.extension",
    "Finding": "agentnb.detect.run_detectors",
    "GitHub": "agentnb.tools.builtin.github.github_group",
    "Guidance": "agentnb.core.guidance",
    "GuidanceSet": "agentnb.guidance.sets",
    "History": "agentnb.context.history_settings",
    "Judge": "agentnb.experiments.judging.judge",
    "MCPServer": "agentnb.tools.mcp.mcp_server",
    "Chat": "agentnb.policies.policy_sets",
    "ContextType": "agentnb.chat.context_type",
    "Plans": "agentnb.chat.plans.plans_extension",
    "Matrix": "agentnb.policies.policy_sets",
    "Minimal": "agentnb.policies.policy_sets",
    "Orchestration": "agentnb.runtime.runs.orchestration",
    "Output": "agentnb.agent.output",
    "Plan": "agentnb.workflow.plan",
    "PolicyBundle": "agentnb.policies.bundle",
    "RandomGuidance": "agentnb.guidance.draws",
    "Run": "agentnb.detect.run",
    "RunOptions": "agentnb.runtime.host.run_options",
    "StepOrchestrator": "agentnb.runtime.steps.step_orchestrator",
    "Shell": "agentnb.tools.builtin.shell.shell_group",
    "Stop": "agentnb.policies.verdict",
    "Store": "agentnb.store.store",
    "Todo": "agentnb.core.todos",
    "TodoBoard": "agentnb.tools.todos.board",
    "ToolCall": "agentnb.core.messages",
    "Web": "agentnb.tools.builtin.web.web_group",
    "Workflow": "agentnb.workflow.workflow",
    "agreement": "agentnb.experiments.judging.agreement",
    "ask_person": "agentnb.tools.ask_person",
    "browse": "agentnb.notebook.browser",
    "compare": "agentnb.experiments.results.comparison",
    "detect": "agentnb",
    "diff": "agentnb.rerun.run_diff",
    "errors": "agentnb",
    "examples": "agentnb",
    "expect": "agentnb.rerun.expect",
    "fork": "agentnb.rerun.fork",
    "fork_sync": "agentnb.rerun.fork",
    "from_portable": "agentnb.agent.portable",
    "import_traces": "agentnb.interchange.importing",
    "iter_traces": "agentnb.interchange.files",
    "label": "agentnb.notebook.labelling",
    "labels": "agentnb.store.run_labels",
    "lift": "agentnb.experiments.rounds.lift",
    "load_trace": "agentnb.interchange.files",
    "load_traces": "agentnb.interchange.files",
    "optimise": "agentnb.experiments.search.search",
    "panel": "agentnb.notebook.panel",
    "plots": "agentnb",
    "portable": "agentnb.agent.portable",
    "recover": "agentnb.session.recovery",
    "replay": "agentnb.rerun.replay",
    "reproduce": "agentnb.rerun.reproduce",
    "reproduce_sync": "agentnb.rerun.reproduce",
    "save_trace": "agentnb.display.save",
    "survey": "agentnb.rerun.survey",
    "tables": "agentnb",
    "to_code": "agentnb.rerun.code.to_code",
    "to_test": "agentnb.rerun.code.to_test",
    "tool": "agentnb.tools.function",
    "validate_plan": "agentnb.workflow.plans.plan_checks",
    "within": "agentnb.experiments.planning.experiment_checks",
}
"""Module of each public name."""

__all__ = [*_NAMES, "__version__"]  # noqa: PLE0604  # names from the table above, invisible to the linter


def _import_name(name: str) -> Any:
    if name in _NAMES:
        module = _NAMES[name]
        value = import_module(f"agentnb.{name}") if module == "agentnb" else getattr(import_module(module), name, None)
        if value is None:
            value = import_module(f"{module}.{name}")
        globals()[name] = value
        return value
    return import_module("agentnb.errors").module_getattr("agentnb", _NAMES)(name)


if not TYPE_CHECKING:  # a type checker would accept every name as Any, including misspelled ones
    __getattr__ = _import_name


# Lower layers read recorded runs, and assess runs by their expectations, through a higher layer that they must not import:
# it is loaded when the first run is read, or when a run with expectations ends.


def read_recordings(source: Any) -> Any:
    """Return the recordings of one run, of several runs, or at a path, for `agentnb.models.RecordedModel`."""
    return import_module("agentnb.rerun.recordings").recordings_of(source)


def assess_by_expectations(run: Any, end: Any) -> Any:
    """Return the assessments of a run that is about to end with ``end``, according to the expectations in its log."""
    return import_module("agentnb.rerun.expect").expected_outcome(run, end)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the extension; called by IPython for ``%load_ext agentnb``."""
    import_module("agentnb.notebook.ipython_extension").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Unload the extension; called by IPython for ``%unload_ext agentnb``."""
    import_module("agentnb.notebook.ipython_extension").unload(shell)
