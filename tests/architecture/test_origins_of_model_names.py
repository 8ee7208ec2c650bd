"""A model's name in a file or log is marked as such where it is read, and few places make a model or an agent of a name."""

from __future__ import annotations

import ast
from pathlib import Path

from parsed import PACKAGE, calls, trees, walk

MAKERS = {"Agent", "make_model", "endpoint_of", "FileModelName", "logged_model", "is_trusted"}
ALLOWED = {
    "agent/from_log.py": [
        "agent_of: Agent",  # of `logged_model`, or of what its caller names
        "agent_of: logged_model",
        "limits_of_file: is_trusted",
        "logged_model: FileModelName",
        "logged_model: is_trusted",
        "with_builtins: is_trusted",
    ],
    "agent/portable.py": ["_model_again: endpoint_of"],  # with the origin that the model had
    "cli/resumed_runs.py": ["_started_with: is_trusted"],  # of modules with tools, not of a model
    "agent/start.py": ["AgentRun.prepare: make_model"],  # of the agent's
    "experiments/form/yaml_names.py": ["Names.model: FileModelName"],
    "chat/plans/plan_execution.py": ["model_of: make_model"],  # of plans and reviewer, as the person names them in Plans(...)
    "experiments/judging/judge.py": ["Judge._agent: Agent"],  # as the person names it in Judge(...)
    "experiments/planning/plan_problems.py": [
        "_price_problems: make_model",  # of the experiment's
        "judge_problems: Agent",  # of the person's judge
        "judge_problems: make_model",
    ],
    "experiments/planning/variants.py": ["_variant: Agent"],  # of what was written in Python, or marked by who read a file
    "experiments/search/proposals.py": ["proposer_agent: Agent"],  # as the person names it
    "models/registry.py": ["check_key: endpoint_of", "make_model: endpoint_of", "seed_in: FileModelName"],  # as it was
    "notebook/agent_options.py": [
        "_external_agent: Agent",
        "make_agent: Agent",
        "make_agent: is_trusted",
    ],  # of what was typed, or of `choose_model`
    "notebook/commands/models_command.py": ["provider_models: endpoint_of"],  # of what was typed
    "rerun/fork.py": ["_model: logged_model", "pending_of: Agent"],
    "session/choice.py": ["choose_model: logged_model"],
    "session/recovery.py": ["workflow_again: is_trusted", "workflow_again: logged_model"],
    "workflow/form/agent_reader.py": ["_agent: FileModelName"],
    "workflow/running/agents.py": ["WorkflowAgents._make: Agent", "WorkflowAgents.check_prices: make_model"],
    "workflow/files/declared_files.py": ["without_folders: FileModelName"],
    "workflow/plans/planner_inputs.py": ["check_planner_models: FileModelName"],  # of an input, as below
    "workflow/tasks/model_steps.py": [
        "ModelSteps._choose: FileModelName",  # of an input or a variable, whoever set it
        "ModelSteps._choose: make_model",
        "ModelSteps._choose: make_model",  # that of the run, as `model=`
    ],
    "workflow/tasks/task_orchestration.py": ["_price_check.check: Agent", "_price_check.check: make_model"],  # as `model=`
    "workflow/plans/execution.py": ["_Hands._prompt: Agent"],  # likewise
    "workflow/workflow.py": ["Workflow.of_run: is_trusted"],
}
"""The places, by file. A plain text counts as the person's own word: a new place says here where its name comes from, and makes
a `FileModelName` of one that anybody else may have written (`logged_model` for a run).
"""


def makers_in(tree: ast.Module) -> list[str]:
    named = ((place, call.func.id) for place, call in calls(tree) if isinstance(call.func, ast.Name))
    return sorted(f"{place}: {name}" for place, name in named if name in MAKERS)


def test_places_that_make_models_are_listed() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): makers_in(tree) for path, tree in trees().items()}
    assert {name: places for name, places in found.items() if places} == ALLOWED


def test_functions_that_make_models_are_not_renamed_on_import() -> None:
    def renamed(path: Path, tree: ast.Module) -> list[str]:
        imports = (one for node in walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names)
        return [f"{path.name}: {one.asname}" for one in imports if one.name in MAKERS and one.asname not in (None, one.name)]

    assert not [name for path, tree in trees().items() for name in renamed(path, tree)]
