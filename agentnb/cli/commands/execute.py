"""``agentnb exec``: runs a workflow, a task file, a plan or the built-in planner."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from agentnb.advice import Invocation
from agentnb.cli.command import Command, Outcome, argument, text_of
from agentnb.cli.inputs import STDIN, find_gates, find_tools, read_prompt
from agentnb.cli.mcp_files import servers_of
from agentnb.cli.run_files import is_plan, is_planner, read_plan, read_workflow
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.run_progress import Progress
from agentnb.cli.terminal.standard_streams import complain, tell
from agentnb.cli.terminal.terminal_questions import is_at_terminal
from agentnb.cli.workflow_options import (
    ALLOW_URL,
    APPROVE,
    BUDGET,
    FILE,
    GATES,
    INPUTS,
    MCP,
    MODEL,
    NO_INPUT,
    RULES,
    STRICT,
    TOOLS,
    UNPRICED,
    options_again,
)
from agentnb.cli.workflow_runs import await_run, chosen_model, top_steps
from agentnb.errors import SettingsError
from agentnb.models.destinations.allowed_urls import allow_urls
from agentnb.models.registry import check_destinations, check_model
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.default_store import default_store
from agentnb.session.option_defaults import typed_rules
from agentnb.workflow.checks.key_checks import check_keys
from agentnb.workflow.files.declared_files import model_names
from agentnb.workflow.files.nested_files import file_text, path_of
from agentnb.workflow.files.text_inputs import read_inputs
from agentnb.workflow.plans.default_planner import planner_text
from agentnb.workflow.plans.planner_inputs import check_planner_inputs, check_planner_models

RESULTS = "results"
"""Name of a plan's only input."""


_Prepared: TypeAlias = tuple[Callable[[RunOptions], LiveRun], list[str]]
"""The function that starts a checked file, and the paths of its steps, for the progress bar."""


def execute(args: Namespace) -> Outcome:
    """Run a workflow, a task file or a plan from a file, or with `planner` the built-in task file of a planner and an executor.

    The result goes to standard output, progress and the step context to standard error. A plan may call only the tools of
    --tools, and is checked with them first. A file called planner takes precedence over the built-in one.
    """
    path = path_of(args.file)
    if args.print_only:
        return _print_planner(path)
    inputs = read_inputs(args.inputs)
    if args.prompt_template is not None:
        inputs["promptTemplate"] = file_text(path_of(args.prompt_template))
    tools = find_tools(args.tools)
    prepare = _plan if is_plan(path) else _workflow
    start, steps = prepare(args, path, tools, inputs)
    store, note = default_store()
    if note:
        complain(note)
    rules = typed_rules(args.rules)
    asks = is_at_terminal() and not args.no_input and args.prompt != STDIN
    by = Invocation(surface="shell", model=args.model or "", tools=tuple(args.tools), gates=tuple(args.gate))
    options: dict[str, Any] = {"store": store, "approval_mode": args.approve, "permissions": rules, "invocation": by}
    with servers_of(args.mcp, asks=asks):
        return await_run(start, Progress(steps), asks=asks, again=options_again(args), **options)


def _print_planner(path: Path) -> Outcome:
    """Return the task file of the built-in planner, as a starting point for your own."""
    if not is_planner(path):
        raise SettingsError(
            f"--print: {path} is not the built-in planner", "agentnb exec planner --print prints the built-in planner"
        )
    return Outcome(planner_text())


def _workflow(args: Namespace, path: Path, tools: list[Any], inputs: dict[str, Any]) -> _Prepared:
    """Return the workflow or task file at this path, ready to run."""
    workflow = read_workflow(path, tools, strict=args.strict, inputs=inputs)
    allow_urls(args.allow_urls)
    # Before anything is written: the user may be asked, and then the command restarts.
    check_destinations(model_names(workflow.declared))
    settings = {"inputs": inputs, **_settings(args)}
    prompt = read_prompt(args.prompt)
    if is_planner(path) and not prompt and not inputs.get("query"):
        raise SettingsError("The planner needs a question", 'agentnb exec planner "QUESTION" --tools MODULE:NAME')
    for warning in workflow.warnings:
        tell(warning.text_for(SHELL))
    settings["model"] = chosen_model(workflow, args.model)
    check_keys(workflow.spec, settings["model"])
    check_planner_inputs(workflow.declared, inputs, tools, Path.cwd())
    check_planner_models(workflow.declared, inputs, settings["model"])
    return lambda options: workflow.start(prompt, options, **settings), top_steps(workflow)


def _plan(args: Namespace, path: Path, tools: list[Any], inputs: dict[str, Any]) -> _Prepared:
    """Return the plan at this path, ready to run."""
    plan = read_plan(path, tools)
    if args.prompt is not None:
        raise SettingsError("A plan takes no prompt", f"agentnb exec {path} runs its steps")
    for name in inputs:
        if name != RESULTS:
            raise SettingsError(f"A plan takes no input {name}", f"Give only {RESULTS}: results of steps to skip")
    allow_urls(args.allow_urls)
    if args.model:
        check_model(args.model)
    settings = {"inputs": inputs, "tools": tools, "model": args.model, **_settings(args)}
    return lambda options: plan.start(options, **settings), [f"plan/{index}" for index in range(len(plan.steps))]


def _settings(args: Namespace) -> dict[str, Any]:
    gates = find_gates(args.gate)
    of_agents = {**({"gates": gates} if gates else {}), **({"unpriced": True} if args.unpriced else {})}
    return {"budget": args.budget, "agent_settings": of_agents}


EXEC = Command(
    execute,
    (
        FILE,
        argument("prompt", nargs="?", metavar="PROMPT", help="the task for the agents; - reads it from standard input"),
        INPUTS,
        argument(
            "--prompt-template", metavar="FILE", type=text_of, help="the input promptTemplate of a task file, from a file"
        ),
        argument(
            "--print",
            dest="print_only",
            action="store_true",
            help="with planner: print its task file, to be copied and changed; run nothing",
        ),
        TOOLS,
        MCP,
        GATES,
        MODEL,
        BUDGET,
        UNPRICED,
        APPROVE,
        RULES,
        NO_INPUT,
        STRICT,
        ALLOW_URL,
    ),
    "agentnb exec publish.yaml 'Low water in Brest' -m anthropic:NAME\n"
    "echo 'Low water in Brest' | agentnb exec publish.yaml - --tools my_tools:fetch\n"
    'agentnb exec publish.yaml -i \'{"language": "French"}\'\n'
    "agentnb exec planner 'Which harbour has the higher tide?' --tools my_tools:fetch,web\n"
    "agentnb exec plan.yaml --tools my_tools:fetch\n"
    "agentnb exec planner --print > my_planner.yaml\n\n"
    "exit codes: 0 completed, 1 failed or stopped, 2 invalid: nothing ran, 3 a limit was reached,\n"
    "4 waiting for a person: the last line is a command that answers, 130 cancelled",
)
