"""Public names, and what importing them loads."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest
from asserted_sentences import Snapshot
from property_settings import AT_NIGHT

import agentnb
import agentnb.models
import agentnb.testing
from agentnb.notebook import ipython_extension

NAMES = {
    "Agent": "agentnb.agent.agent",
    "Allow": "agentnb.policies.gates.gate_verdicts",
    "Ask": "agentnb.policies.gates.gate_verdicts",
    "Block": "agentnb.policies.gates.gate_verdicts",
    "Chat": "agentnb.policies.policy_sets",
    "ContextType": "agentnb.chat.context_type",
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
    "agreement": "agentnb.experiments.judging.agreement",
    "MCPServer": "agentnb.tools.mcp.mcp_server",
    "Matrix": "agentnb.policies.policy_sets",
    "Minimal": "agentnb.policies.policy_sets",
    "Orchestration": "agentnb.runtime.runs.orchestration",
    "Output": "agentnb.agent.output",
    "Plan": "agentnb.workflow.plan",
    "Plans": "agentnb.chat.plans.plans_extension",
    "PolicyBundle": "agentnb.policies.bundle",
    "RandomGuidance": "agentnb.guidance.draws",
    "Run": "agentnb.detect.run",
    "RunOptions": "agentnb.runtime.host.run_options",
    "Shell": "agentnb.tools.builtin.shell.shell_group",
    "StepOrchestrator": "agentnb.runtime.steps.step_orchestrator",
    "Stop": "agentnb.policies.verdict",
    "Store": "agentnb.store.store",
    "Todo": "agentnb.core.todos",
    "TodoBoard": "agentnb.tools.todos.board",
    "ToolCall": "agentnb.core.messages",
    "Web": "agentnb.tools.builtin.web.web_group",
    "Workflow": "agentnb.workflow.workflow",
    "ask_person": "agentnb.tools.ask_person",
    "browse": "agentnb.notebook.browser",
    "compare": "agentnb.experiments.results.comparison",
    "detect": "agentnb.detect",
    "diff": "agentnb.rerun.run_diff",
    "errors": "agentnb.errors",
    "examples": "agentnb.examples",
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
    "plots": "agentnb.plots",
    "portable": "agentnb.agent.portable",
    "recover": "agentnb.session.recovery",
    "replay": "agentnb.rerun.replay",
    "reproduce": "agentnb.rerun.reproduce",
    "reproduce_sync": "agentnb.rerun.reproduce",
    "save_trace": "agentnb.display.save",
    "survey": "agentnb.rerun.survey",
    "tables": "agentnb.tables",
    "to_code": "agentnb.rerun.code.to_code",
    "to_test": "agentnb.rerun.code.to_test",
    "tool": "agentnb.tools.function",
    "validate_plan": "agentnb.workflow.plans.plan_checks",
    "within": "agentnb.experiments.planning.experiment_checks",
}
"""Each public name with its module."""
HEAVY = (
    "pandas",
    "numpy",
    "matplotlib",
    "anthropic",
    "openai",
    "httpx2",
    "genai_prices",
    "mcp",
    "mcp_types",
    "pydantic",
    "pydantic_core",
    "anyio",
    "starlette",
    "jsonschema",
    "opentelemetry",
    "rapidfuzz",
    "jsonschema_rs",
    "docstring_parser",
    "markdown_it",
    "scipy",
    "statsmodels",
    "loky",
    "cloudpickle",
)


ONE_BY_ONE = """
import json, sys, traceback
found = []
for code in json.load(sys.stdin):
    for name in [name for name in sys.modules if name.partition(".")[0] == "agentnb"]:
        del sys.modules[name]
    names = {}
    try:
        exec(code, names)
        found.append(names["told"])
    except Exception:
        found.append(traceback.format_exc())
print(json.dumps(found))
"""
"""Runs several pieces of code in one Python, each as if it imported agentnb first; prints their ``told``."""


def python(code: str, given: str = "") -> str:
    """Return the output of this code in a fresh Python."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_public_names_match_the_expected_list() -> None:
    assert sorted(agentnb.__all__) == sorted([*NAMES, "__version__"])


def test_models_for_users_are_in_one_module() -> None:
    assert sorted(agentnb.models.__all__) == [
        "Image",
        "Message",
        "Model",
        "RecordedModel",
        "RemoteModel",
        "Reply",
        "Request",
        "Retry",
        "ScriptedModel",
        "SimulatedModel",
        "Text",
        "TextDelta",
        "make_model",
    ]


def test_test_helpers_for_users_are_in_one_module() -> None:
    assert sorted(agentnb.testing.__all__) == [
        "Answer",
        "BrokenJson",
        "Cut",
        "EmptyReply",
        "EndEarly",
        "Endless",
        "ErrorInStream",
        "LoopbackServer",
        "Misbehaviour",
        "Miscount",
        "NOT_COUNTED",
        "NotJson",
        "Opaque",
        "Overflow",
        "Received",
        "Sloppy",
        "Stall",
        "Status",
        "UnknownEvent",
        "overflow",
    ]
    for package in (agentnb.models, agentnb.testing):
        assert all(getattr(package, name).__doc__ for name in package.__all__)


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imports() -> dict[str, tuple[str, object]]:
    """Ways to import public names: label, code, and expected output."""
    ways: dict[str, tuple[str, object]] = {}
    first_of_room = {_room(module): name for name, module in reversed(NAMES.items())}  # by day
    for name, module in NAMES.items():
        code = f"from agentnb import {name}; import agentnb; told = [{name} is agentnb.{name}, {name}.__name__.split('.')[-1]]"
        if first_of_room[_room(module)] == name or AT_NIGHT:
            ways[f"{name} alone"] = code, [True, {"optimise": "Search"}.get(name, name)]
        if module.endswith(f".{name}") or AT_NIGHT:  # such a module could hide what it holds
            code = f"import {module} as module; from agentnb import {name}; told = {name} is getattr(module, {name!r}, module)"
            ways[f"{name} after its module"] = code, True
    for name, package, kind in (("tool", "agentnb.tools.tool", "function"), ("tables", "agentnb.tables.runs_table", "module")):
        code = f"import {package}; import agentnb; from agentnb import {name} as it; "
        code += f"told = [it is agentnb.{name}, type(it).__name__]"
        ways[f"{name} is not hidden by a module of that name"] = code, [True, kind]
    ways["all at once"] = "from agentnb import *; told = len({Agent, tool, Run, Store, ToolCall, errors, tables})", 7
    ways["offered for completion"] = "import agentnb; told = set(agentnb.__all__) <= set(dir(agentnb))", True
    return ways


DOCUMENTED = {
    "agentnb.core.usage": "Usage",
    "agentnb.errors": "SettingsError",
    "agentnb.models": "ScriptedModel",
    "agentnb.models.registry": "wire_form",
    "agentnb.models.scripted": "ScriptedModel",
    "agentnb.policies": "PolicyBundle",
    "agentnb.policies.gates": "Deny",
    "agentnb.testing": "LoopbackServer",
    "agentnb.tools.tool": "ToolContext",
}
"""The modules that the pages import from, besides `agentnb`, and a name in each."""


def test_documented_modules_keep_their_paths(subtests: pytest.Subtests) -> None:
    for module, name in DOCUMENTED.items():
        with subtests.test(module):
            assert hasattr(importlib.import_module(module), name)


def test_moved_modules_warn_and_name_their_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("agentnb.traces", "agentnb.traces.detecting"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.warns(DeprecationWarning, match=r"will be removed in 0\.2.*from agentnb\.interchange\.detecting"):
        moved = importlib.import_module("agentnb.traces.detecting")
    assert moved.detected_runs.__module__ == "agentnb.interchange.detecting"


@pytest.mark.nightly("by day the names are those of the package, and tests import them")
@pytest.mark.slow("imports each name in fresh processes")
def test_each_public_name_can_be_the_first_import(subtests: pytest.Subtests) -> None:
    ways = imports()
    told = json.loads(python(ONE_BY_ONE, json.dumps([code for code, _ in ways.values()])))
    for (way, (_, wanted)), found in zip(ways.items(), told, strict=True):
        with subtests.test(way):
            assert found == wanted


def test_unknown_name_raises_an_attribute_or_import_error(snapshot: Snapshot) -> None:
    with pytest.raises(AttributeError, check=snapshot.worded):
        agentnb.nonsense  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from agentnb import nonsense")


MODULES_OF_THE_EXTENSION = 35
"""Modules of agentnb that may be loaded with the extension, before anything of it is used."""
MODULES_OF_AGENT = 10
"""Modules of agentnb that may be loaded with the class `Agent`, before an agent is made."""

STEPS = {
    "importing agentnb": "import agentnb",
    "naming an agent's class": "from agentnb import Agent",
    "naming MCP servers": (
        "from agentnb import Agent, MCPServer; "
        "Agent('simulated:disciplined', tools=['mcp:clock', MCPServer('git', 'git-server')])"
    ),
    "making an agent": "from agentnb import Agent, Run, Store, tables, tool, load_trace; Agent('simulated:disciplined')",
    **{
        f"making a model of {name}": f"from agentnb.models import make_model; make_model('{name}:m?url=http://localhost:1/v1')"
        for name in ("anthropic", "openai", "openai-responses", "ollama", "compatible")
    },
}
"""First steps of a user, in order, in one Python."""


def test_import_of_agentnb_loads_nothing_heavy(subtests: pytest.Subtests) -> None:
    lines = ["import sys, json", "seen = {}"]
    for step, code in STEPS.items():
        lines += [code, f"seen[{step!r}] = sorted(sys.modules)"]
    seen = json.loads(python("\n".join([*lines, "print(json.dumps(seen))"])))
    assert sum(name.startswith("agentnb") for name in seen["naming an agent's class"]) <= MODULES_OF_AGENT
    first = seen["importing agentnb"]
    with subtests.test("importing agentnb loads nothing else of it"):
        assert [name for name in first if name.startswith(("agentnb", "msgspec"))] == ["agentnb"]
    for step, names in seen.items():
        with subtests.test(step):
            assert {"IPython", *HEAVY} & set(names) == set()


def test_loading_the_extension_imports_little_and_prints_nothing() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "import sys\n"
        "shell = InteractiveShell.instance()\n"
        "before = set(sys.modules)\n"
        "shell.run_line_magic('load_ext', 'agentnb')\n"
        "assert shell.find_cell_magic('agent') and shell.find_line_magic('agent')\n"
        f"heavy = [name for name in {HEAVY} if name in set(sys.modules) - before]\n"
        "assert not heavy, heavy\n"
        "own = [name for name in sys.modules if name.startswith('agentnb')]\n"
        f"assert len(own) <= {MODULES_OF_THE_EXTENSION}, own\n"
        "assert shell.find_cell_magic('agent').getdoc().startswith('::') and 'agentnb.notebook.magics' in sys.modules\n"
    )
    assert python(code) == ""


def test_extension_views_are_named_as_expected(subtests: pytest.Subtests) -> None:
    for place, view in ipython_extension.VIEWS.items():
        with subtests.test(place):
            module, _, name = place.partition(":")
            assert getattr(importlib.import_module(module), name).__module__ == module
            module, _, name = view.partition(":")
            found = importlib.import_module(module)
            assert callable(getattr(found, f"{name}_html")) and callable(getattr(found, f"{name}_text"))


def test_misspelled_module_attribute_suggests_similar_names(subtests: pytest.Subtests) -> None:
    for module, name, told in (
        ("agentnb", "Agnet", "Did you mean Agent?"),
        ("agentnb.tables", "rouns", "Did you mean rounds or runs or columns?"),
        ("agentnb.plots", "timelin", "Did you mean timeline?"),
        ("agentnb.models", "SimulatdModel", "Did you mean SimulatedModel or"),
        ("agentnb.detect", "findins", "Did you mean findings"),
        ("agentnb.policies", "Matrx", "Did you mean Matrix?"),
    ):
        with subtests.test(module), pytest.raises(AttributeError) as raised:
            getattr(importlib.import_module(module), name)
        assert f"module '{module}' has no attribute '{name}'. {told}" in str(raised.value)
    with pytest.raises(AttributeError, match=r"attribute '__wrapped__'$"):
        getattr(agentnb, "__wrapped__")  # noqa: B009  # as doctest looks for it


def test_dir_lists_only_public_names() -> None:
    assert {name for name in dir(agentnb) if not name.startswith("__")} == {*agentnb.__all__} - {"__version__"}
