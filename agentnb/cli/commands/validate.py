"""``agentnb validate``: reports every problem of a file, without running it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentnb.cli.command import DONE, INVALID, Command, Outcome
from agentnb.cli.inputs import find_tools
from agentnb.cli.kinds import PLAN, kind_of_text
from agentnb.cli.run_files import read_workflow, text_of_file
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.workflow_options import FILE, INPUTS, MCP, STRICT, TOOLS
from agentnb.core.redaction import redact
from agentnb.display.texts.labels import pluralize
from agentnb.errors import AnyProblem, WorkflowProblems
from agentnb.session.confirmed_servers import read_server_file
from agentnb.workflow.files.declared_files import tool_names_of_files
from agentnb.workflow.files.nested_files import path_of
from agentnb.workflow.files.text_inputs import read_inputs
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_checks import read_and_check
from agentnb.workflow.plans.planner import ACTION_NAMES
from agentnb.workflow.plans.planner_inputs import check_planner_inputs


def validate(args: Namespace) -> Outcome:
    """Check a file: report all its problems and warnings, each with file and line. Nothing is run.

    Tools that a file names are checked only with --tools, which must list them all; for a plan, their arguments, too.
    """
    path = path_of(args.file)
    kind = kind_of_text(text_of_file(path))
    warnings: Sequence[AnyProblem] = ()
    try:
        for file in args.mcp:
            read_server_file(path_of(file).absolute(), shown=file)
        tools = find_tools(args.tools) if args.tools else None
        inputs = read_inputs(args.inputs)
        if kind == PLAN:
            read, problems = read_and_check(path, tools)
            problems.check()
            names = Plan.of(read.plan).tool_names if read is not None else ()
            warnings = sorted(problems.warnings, key=lambda problem: problem.line)
        else:
            workflow = read_workflow(path, tools, strict=args.strict, inputs=inputs, checks_actions=tools is not None)
            check_planner_inputs(workflow.declared, inputs, tools, Path.cwd())
            names = tuple([name for name in tool_names_of_files(workflow.declared) if name not in ACTION_NAMES])
            warnings = workflow.warnings
    except WorkflowProblems as error:
        return Outcome(_lines(error.problems, f"{path}: {pluralize(len(error.problems), 'problem')}"), INVALID)
    count = f", {pluralize(len(warnings), 'warning')}" if warnings else ""
    unchecked = ""
    if tools is None and names:
        noun = "tools" if kind == PLAN else "functions"
        unchecked = f"; the {noun} that it names were not checked: {_list_names(names)}. Give --tools MODULE:NAME"
    return Outcome(_lines(warnings, f"{path}: a valid {kind}{count}{unchecked}"), DONE)


def _list_names(names: Sequence[str], most: int = 5) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _lines(problems: Iterable[AnyProblem], last: str) -> str:
    lines = [" ".join(problem.text_for(SHELL).split()) for problem in problems]
    return redact("\n".join([*lines, last])) + "\n"


VALIDATE = Command(
    validate,
    (FILE, INPUTS, TOOLS, MCP, STRICT),
    "agentnb validate publish.yaml\nagentnb validate publish.yaml --strict --tools my_tools:fetch\n"
    "agentnb validate plan.yaml --tools my_tools:fetch,files\n\n"
    "exit codes: 0 valid, 2 invalid",
)
