"""The names that people type, and what importing them does."""

from __future__ import annotations

import subprocess
import sys

import pytest

import agentnb
import agentnb.models
import agentnb.testing
from agentnb.errors import NotAvailable

NAMES = {
    "Agent": "agentnb.agent.agent",
    "DuplicateGuard": "agentnb.policies.gates.duplicate",
    "Guidance": "agentnb.core.guidance",
    "GuidanceSet": "agentnb.guidance.sets",
    "History": "agentnb.context.history",
    "Matrix": "agentnb.policies.named",
    "Minimal": "agentnb.policies.named",
    "Run": "agentnb.core.run",
    "Store": "agentnb.traces.store",
    "Todo": "agentnb.core.todos",
    "TodoBoard": "agentnb.tools.todos.board",
    "ToolCall": "agentnb.core.messages",
    "ask_person": "agentnb.tools.ask_person",
    "errors": "agentnb.errors",
    "load_trace": "agentnb.traces.files",
    "load_traces": "agentnb.traces.files",
    "panel": "agentnb.notebook.panel",
    "recover": "agentnb.session.recovery",
    "save_trace": "agentnb.display.save",
    "tables": "agentnb.traces.tables",
    "tool": "agentnb.tools.function",
}
"""Each public name, and the module it stands in."""
LATER = [
    "Experiment",
    "Workflow",
    "compare",
    "detect",
    "diff",
    "examples",
    "fork",
    "plots",
    "replay",
]
HEAVY = (
    "pandas",
    "numpy",
    "matplotlib",
    "anthropic",
    "openai",
    "httpx2",
    "genai_prices",
    "mcp",
    "jsonschema",
    "docstring_parser",
    "markdown_it",
)


def python(code: str) -> str:
    """What a fresh Python prints for this code."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(agentnb.__all__) == sorted([*NAMES, "__version__"])


def test_the_models_a_person_makes_are_in_one_place() -> None:
    assert sorted(agentnb.models.__all__) == [
        "Image",
        "Message",
        "Model",
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


def test_what_a_person_tests_with_is_in_one_place() -> None:
    assert sorted(agentnb.testing.__all__) == [
        "Answer",
        "BrokenJson",
        "Cut",
        "EmptyReply",
        "EndEarly",
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


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_imported(name: str) -> None:
    code = f"from agentnb import {name}; import sys; import agentnb; assert {name} is agentnb.{name}; print({name}.__name__)"
    assert python(code).strip().rpartition(".")[2] == name


@pytest.mark.parametrize(("name", "module"), NAMES.items())
def test_a_public_name_is_the_same_after_its_module_was_imported(name: str, module: str) -> None:
    code = f"import {module} as module; from agentnb import {name}; print({name} is getattr(module, {name!r}, module))"
    assert python(code) == "True\n"


@pytest.mark.parametrize(("name", "package"), [("tool", "agentnb.tools.tool"), ("tables", "agentnb.traces.tables.runs")])
def test_a_public_name_is_not_hidden_by_a_module_of_the_same_name(name: str, package: str) -> None:
    code = f"import {package}; import agentnb; from agentnb import {name} as it; print(it is agentnb.{name}, type(it).__name__)"
    assert python(code) == f"True {'function' if name == 'tool' else 'module'}\n"


def test_all_names_can_be_imported_at_once() -> None:
    assert python("from agentnb import *; print(len({Agent, tool, Run, Store, ToolCall, errors, tables}))") == "7\n"


def test_all_names_are_offered_for_completion() -> None:
    assert python("import agentnb; print(set(agentnb.__all__) <= set(dir(agentnb)))") == "True\n"


@pytest.mark.parametrize("name", LATER)
def test_a_name_of_a_later_version_is_refused_clearly(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from agentnb import {name}")
    assert isinstance(caught.value, NotAvailable)
    sentence = f"agentnb.{name} is not in agentnb {agentnb.__version__} yet. The CHANGELOG says what is"
    assert str(caught.value) == sentence
    assert name not in dir(agentnb)


def test_a_name_that_nobody_promised_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'agentnb' has no attribute 'nonsense'"):
        agentnb.nonsense  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from agentnb import nonsense")


def test_importing_agentnb_loads_nothing_and_prints_nothing() -> None:
    names = ("msgspec", "IPython", *HEAVY)
    code = f"import agentnb, sys; loaded = [n for n in {names} if n in sys.modules]; assert not loaded, loaded"
    assert python(code) == ""
    code = "import agentnb, sys; print(sorted(name for name in sys.modules if name.startswith('agentnb')))"
    assert python(code) == "['agentnb']\n"


def test_making_an_agent_and_tables_loads_no_heavy_library() -> None:
    code = "from agentnb import Agent, Run, Store, tables, tool, load_trace; Agent('simulated:disciplined'); import sys; "
    code += f"print([name for name in {('IPython', *HEAVY)} if name in sys.modules])"
    assert python(code) == "[]\n"


@pytest.mark.parametrize("name", ["anthropic:m", "openai:m", "openai-responses:m", "ollama:m", "compatible:m"])
def test_making_a_model_of_a_provider_loads_no_library_of_it(name: str) -> None:
    code = f"from agentnb.models import make_model; model = make_model('{name}?url=http://localhost:1/v1'); import sys; "
    code += f"print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code) == "[]\n"


def test_loading_the_extension_loads_no_heavy_library_and_prints_nothing() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "import sys\n"
        "shell = InteractiveShell.instance()\n"
        "before = set(sys.modules)\n"
        "shell.run_line_magic('load_ext', 'agentnb')\n"
        "assert shell.find_cell_magic('agent') and shell.find_line_magic('agent')\n"
        f"heavy = [name for name in {HEAVY} if name in set(sys.modules) - before]\n"
        "assert not heavy, heavy\n"
    )
    assert python(code) == ""
