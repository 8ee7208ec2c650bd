"""``agentnb validate``: says all that is wrong in a file, without running it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence

from agentnb.cli.command import DONE, INVALID, Command, Outcome
from agentnb.cli.commands.execute import read_file
from agentnb.cli.inputs import find_tools
from agentnb.cli.kinds import kind_of_text
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.workflow_options import FILE, INPUTS, MCP, STRICT, TOOLS
from agentnb.core.redaction import redact
from agentnb.display.texts.labels import counted
from agentnb.errors import AnyProblem, WorkflowProblems
from agentnb.session.server_files import read_server_file
from agentnb.workflow.files.declared_files import tool_names_of_files
from agentnb.workflow.files.files import file_text, path_of
from agentnb.workflow.files.text_inputs import read_inputs


def validate(given: Namespace) -> Outcome:
    """Check a file: all its problems and warnings, each with file and line. Nothing is run."""
    path = path_of(given.file)
    kind = kind_of_text(file_text(path))
    try:
        for file in given.mcp:
            read_server_file(path_of(file).absolute(), shown=file)
        tools = find_tools(given.tools) if given.tools else None
        inputs = read_inputs(given.inputs)
        workflow = read_file(path, tools, strict=given.strict, inputs=inputs, checks_actions=tools is not None)
    except WorkflowProblems as error:
        return Outcome(_lines(error.problems, f"{path}: {counted(len(error.problems), 'problem')}"), INVALID)
    count = f", {counted(len(workflow.warnings), 'warning')}" if workflow.warnings else ""
    names = tool_names_of_files(workflow.declared) if tools is None else ()
    unchecked = f"; the functions that it names were not checked: {_shown(names)}. Give --tools MODULE:NAME" if names else ""
    return Outcome(_lines(workflow.warnings, f"{path}: a valid {kind}{count}{unchecked}"), DONE)


def _shown(names: Sequence[str], most: int = 5) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _lines(found: Iterable[AnyProblem], last: str) -> str:
    lines = [" ".join(one.worded(SHELL).split()) for one in found]
    return redact("\n".join([*lines, last])) + "\n"


VALIDATE = Command(
    validate,
    (FILE, INPUTS, TOOLS, MCP, STRICT),
    "agentnb validate publish.yaml\nagentnb validate publish.yaml --strict --tools my_tools:fetch\n\n"
    "exit codes: 0 valid, 2 invalid",
)
