"""``agentnb exec``: runs a workflow from a file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any

from agentnb.advice import Invocation
from agentnb.cli.command import Command, Outcome, argument, text_of
from agentnb.cli.inputs import STDIN, find_gates, find_tools, read_prompt
from agentnb.cli.kinds import refuse_plan
from agentnb.cli.server_files import servers_of
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.progress import Progress
from agentnb.cli.terminal.streams import complain, tell
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
from agentnb.cli.workflow_runs import awaited, chosen_model, top_steps
from agentnb.errors import WorkflowProblems
from agentnb.models.destinations.allowed_urls import allow_urls
from agentnb.models.registry import check_destinations
from agentnb.runtime.host.live import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.default_store import default_store
from agentnb.session.defaults import typed_rules
from agentnb.workflow.checks.keys import check_keys
from agentnb.workflow.files.declared_files import model_names
from agentnb.workflow.files.files import file_text, path_of
from agentnb.workflow.files.text_inputs import read_inputs
from agentnb.workflow.workflow import Workflow


def execute(given: Namespace) -> Outcome:
    """Run a workflow from a file. Its result goes to standard output, progress and the step context to standard error."""
    inputs = read_inputs(given.inputs)
    if given.prompt_template is not None:
        inputs["promptTemplate"] = file_text(path_of(given.prompt_template))
    workflow = read_file(path_of(given.file), find_tools(given.tools), strict=given.strict, inputs=inputs)
    allow_urls(given.allow_urls)
    # Before anything is written: the person may be asked, and then the command begins again.
    check_destinations(model_names(workflow.declared))
    settings: dict[str, Any] = {"inputs": inputs, "budget": given.budget}
    of_agents: dict[str, Any] = {"gates": gates} if (gates := find_gates(given.gate)) else {}
    settings["agent_settings"] = {**of_agents, **({"unpriced": True} if given.unpriced else {})}
    prompt = read_prompt(given.prompt)
    for warning in workflow.warnings:
        tell(warning.worded(SHELL))
    settings["model"] = chosen_model(workflow, given.model)
    check_keys(workflow.spec, settings["model"])
    store, note = default_store()
    if note:
        complain(note)

    def start(options: RunOptions) -> LiveRun:
        return workflow.start(prompt, options, **settings)

    rules = typed_rules(given.rules)
    asks = is_at_terminal() and not given.no_input and given.prompt != STDIN
    progress = Progress(top_steps(workflow))
    by = Invocation(surface="shell", model=given.model or "", tools=tuple(given.tools), gates=tuple(given.gate))
    options: dict[str, Any] = {"store": store, "approval_mode": given.approve, "permissions": rules, "invocation": by}
    with servers_of(given.mcp, asks=asks):
        return awaited(start, progress, asks=asks, again=options_again(given), **options)


def read_file(
    path: Path, tools: list[Any] | None, *, strict: bool, inputs: Collection[str] = (), checks_actions: bool = False
) -> Workflow:
    """Return the workflow of a file; raise what says all that is wrong. ``tools``: all that there are, if that is known."""
    try:
        return Workflow.from_yaml(path, strict=strict, tools=tools, inputs=inputs, checks_actions=checks_actions)
    except WorkflowProblems:
        refuse_plan(file_text(path), str(path))
        raise


EXEC = Command(
    execute,
    (
        FILE,
        argument("prompt", nargs="?", metavar="PROMPT", help="what the agents work on; - reads it from standard input"),
        INPUTS,
        argument(
            "--prompt-template", metavar="FILE", type=text_of, help="the input promptTemplate of a task file, from a file"
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
    'agentnb exec publish.yaml -i \'{"language": "French"}\'\n\n'
    "exit codes: 0 completed, 1 failed or stopped, 2 invalid: nothing ran, 3 a limit was reached,\n"
    "4 waiting for a person: the last line is a command that answers, 130 cancelled",
)
