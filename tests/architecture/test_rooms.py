"""The house: how large a room is, and what may not be in it.

The linter, the formatter, the types and the import contracts are no tests: ``make check`` runs them, before ``make test``.
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from pathlib import Path

from parsed import PACKAGE, trees, walk

from agentnb.core.log.events import KINDS

ROOT = PACKAGE.parent

MATRIX = {
    "todos_tools",
    "todos_text",
    "tools",
    "text",
    "reminder",
    "warning",
    "final_warning",
    "planning",
    "stronger",
    "strongest",
    "workflow",
    "already_said",
    "tool_failed",
    "tool_failed_again",
    "failure_loop",
    "note",
    "todo_list",
}
"""The parts of the built-in guidance set."""


def names_in(tree: ast.Module) -> set[str]:
    """All names and attributes that the code uses."""
    nodes = walk(tree)
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
        node.id for node in nodes if isinstance(node, ast.Name)
    }


LISTED_BY_A_TABLE = {"agentnb/tables", "agentnb/interchange/formats"}
"""Folders of like things: `tables.catalogue` and `FORMATS` name each."""


def test_folders_hold_at_most_15_modules() -> None:
    modules = Counter(path.parent.relative_to(ROOT).as_posix() for path in trees() if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > 15 and folder not in LISTED_BY_A_TABLE} == {}
    assert modules["agentnb/core/run"] == 15, "the count sees inner rooms"


def test_functions_are_short() -> None:
    lengths = {
        f"{path.name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path, tree in trees().items()
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert statistics.median(lengths.values()) <= 10
    assert {name: length for name, length in lengths.items() if length > 45} == {}


def test_few_modules_name_an_event_kind() -> None:
    kinds = {kind.__name__ for kind in KINDS}
    named = Counter(name for tree in trees().values() for name in names_in(tree) & kinds)
    assert statistics.median(named.values()) <= 6, named.most_common()


DEFERS = {
    "notebook/ipython_extension.py": "imports each magic, view and the session with its first use",
    "notebook/completion.py": "the options of magics that were not used yet",
    "notebook/commands/status.py": "experiments, if there are any",
    "notebook/cells/cell_host.py": "experiments, if a cell begins one",
    "agent/agent.py": "a run, when one begins",
    "agent/start.py": "an external agent, if a run is one of these",
    "agent/derived_settings.py": "an external agent, if the settings name one",
    "agent/agent_settings.py": "the check of settings, when an agent is made",
    "runtime/host/host.py": "threads and limiters of runs: the extension knows the host before there is one",
}
"""The modules that import others of agentnb inside functions, since those that name them load little, and what these are."""


def _imports_agentnb(node: ast.AST) -> bool:
    """True for an import of agentnb that is not at the margin."""
    return isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset > 0 and "agentnb" in ast.unparse(node)


def test_no_agentnb_module_is_imported_inside_a_function() -> None:
    inside = {
        str(path.relative_to(PACKAGE))
        for path, tree in trees().items()
        if any(map(_imports_agentnb, walk(tree)))
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in ast.walk(node)
        if _imports_agentnb(statement)
    }
    assert inside == DEFERS.keys()


def test_no_room_is_imported_dynamically_by_name() -> None:
    """``agentnb/__init__.py``, which imports each public name on first use, is above all rooms."""
    by_text = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        if path != ROOT / "agentnb" / "__init__.py"
        for node in walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__"))
        if node.args and "'agentnb." in ast.unparse(node.args[0])
    }
    assert by_text == set()


def test_no_room_is_called_utils() -> None:
    lumber = {"utils", "helpers", "common", "config", "managers"}
    assert [path for path in trees() if lumber & {path.stem, path.parent.name}] == []


def test_only_settings_reads_the_environment() -> None:
    readers = [path.relative_to(ROOT) for path, tree in trees().items() if {"environ", "getenv"} & names_in(tree)]
    assert readers == [Path("agentnb/acp/bridge.py"), Path("agentnb/settings.py")]  # the first is a program without agentnb


def test_prompts_are_markdown_files() -> None:
    folder = ROOT / "agentnb" / "guidance" / "prompts"
    prompts = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")}
    replies = {
        "empty_answer",
        "reply_cut",
        "announced_call",
        "claimed_call",
        "clarification",
        "compaction",
        "final_answer",
        "foreign_text",
        "judge",
        "judge_pair",
        "output",
        "output_refused",
    }
    assert prompts == {"system", "no_tools", "continue", *replies, *(f"matrix/{part}" for part in MATRIX)}
    assert all(path.read_text(encoding="utf-8").strip() for path in folder.rglob("*.md"))


def test_notebook_room_imports_no_decision_making_code() -> None:
    """Watching never reaches into running: no policy, gate, guide, loop or dispatch is imported there.

    A policy that a person types after ``-p`` is looked up by its name; nothing else is imported from the policies.
    """
    decide = ("agentnb.policies", "agentnb.agent.loop", "agentnb.runtime.calls.dispatch", "agentnb.guidance.guides")
    by_name = {
        "agentnb.policies.policy_sets": {"NAMED", "find_policy", "in_workflow_mode"},
        "agentnb.policies.run_limits": {"LIMITS", "LIMIT_SETTINGS", "ON_LIMIT"},
    }
    looked_at = 0
    for path, tree in trees().items():
        if "notebook" not in path.relative_to(ROOT / "agentnb").parts[:1]:
            continue
        looked_at += 1
        for node in walk(tree):
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
            if isinstance(node, ast.ImportFrom) and node.module in by_name:
                assert names <= by_name[node.module], path
                continue
            imported = {f"{node.module}.{name}" for name in names} if isinstance(node, ast.ImportFrom) else names
            for room in decide:
                assert not [name for name in imported if f"{name}.".startswith(f"{room}.")], path
    assert looked_at > 30, "its folders too"
