"""Reads workflows in either form, and checks them: what is wrong is found before anything runs, all of it at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentnb.workflow.cagent.agent_file import as_workflow_file
from agentnb.workflow.checks.checks import check_workflow, known_tools
from agentnb.workflow.checks.reference_checks import OUTPUT_HINT
from agentnb.workflow.defaults import DEFAULT_LOOPS
from agentnb.workflow.files.declared_files import WorkflowDefinition
from agentnb.workflow.files.files import NestedFiles
from agentnb.workflow.form.agent_reader import OF_WORKFLOWS, read_agents, read_limits
from agentnb.workflow.form.fields import OF_WORKFLOW, Fields, SourceMap
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.spec import WorkflowSpec
from agentnb.workflow.form.step_ids import named_steps
from agentnb.workflow.form.step_reader import StepReader
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, kind_of, read_mapping
from agentnb.workflow.tasks.task_file import CheckActions, is_task_file, read_tasks
from agentnb.workflow.templates.templates import has_templates

SETTINGS = ("inputs", "output", "limits", "max_loop_iterations")
"""What a file says of its workflow, beside ``workflow:`` or beside the ``steps:`` in it."""
OF_FILES = ("agents", "workflow", *SETTINGS)
"""The keys of a file."""
OF_MAPS = ("steps", *SETTINGS, "overrides")
"""The keys of a workflow that is a mapping instead of a list of steps."""
NO_STEPS = "workflow: no steps configured"
_EXAMPLE = "Such as: workflow: [{type: agent, name: writer}]"


@dataclass(frozen=True, slots=True)
class Known:
    """What there is for the texts of files to name."""

    agents: Collection[str] = ()
    """Names of agents that are passed in Python, and replace those of the files."""
    tools: Collection[str] | None = None
    """The names of all tools, perhaps with their schemas; None if they are not checked."""
    inputs: Collection[str] = ()
    """Names of what a task file is passed besides the variables that it declares."""
    check_actions: CheckActions | None = None
    """Notes what tasks call and nobody gave; None if that is not checked."""
    is_logged: bool = False
    """Whether the text is of a run, whose inputs were checked when it began."""


def read_workflow(
    text: str,
    source: str = "",
    *,
    strict: bool = False,
    with_files: bool = False,
    texts: Mapping[str, str] | None = None,
    **known: Any,
) -> WorkflowDefinition:
    """Return what a YAML text declares, in either form; raise `WorkflowProblems` with all that is wrong in it.

    ``source`` is the file, for messages. ``strict``: what would be a warning is a problem. ``with_files``: the files that it
    runs are read with it; ``texts``: of these files, as a log has them; ``known``: as for `Known`. Warnings are in
    ``.warnings`` of what is returned.
    """
    problems, names = Problems(source, strict), Known(**known)
    declared = read_with_problems(text, problems, names, nested_files(source, texts, names) if with_files else None)
    problems.check()
    return replace(declared, warnings=tuple(sorted(problems.warnings, key=lambda problem: problem.line)))


def nested_files(source: str, texts: Mapping[str, str] | None, known: Known = Known()) -> NestedFiles:
    """Return the reader of the files that a workflow runs; see `read_workflow`."""

    def read(text: str, problems: Problems, files: NestedFiles, passed: Collection[str]) -> object:
        return read_with_problems(text, problems, replace(known, inputs=passed), files)

    return NestedFiles(read, source, texts)


def read_with_problems(
    text: str, problems: Problems, known: Known = Known(), files: NestedFiles | None = None
) -> WorkflowDefinition:
    """Return what can be read of a text, in either form, and note in ``problems`` what is wrong; see `read_workflow`.

    ``files``: reads the files that it runs; by default they are not looked at.
    """
    if is_task_file(text):
        return read_tasks(text, problems, known.inputs, known.check_actions)
    empty = WorkflowSpec(steps=(), source=problems.source, text=text)
    node = read_mapping(text, problems, "A workflow file", _EXAMPLE)
    if node is None:
        return empty
    file = Fields(as_workflow_file(node, OF_FILES, problems), "workflow file", problems)
    file.refuse_unknown(OF_FILES)
    places = SourceMap()
    declared = read_agents(file.fields("agents", "agents"), places, problems)
    tools = known_tools(known.tools, declared, places, problems)
    steps, workflow = _workflow(file, problems)
    settings = _settings(file, workflow)
    spec = replace(
        empty,
        agents=declared,
        max_loop_iterations=_loops(settings, workflow),
        limits=read_limits(settings.fields("limits", "limits of the workflow"), OF_WORKFLOWS),
        inputs=settings.mapping("inputs") or {},
        output=_output(settings, places),
    )
    if not steps or (names := named_steps(steps, problems)) is None:
        return spec
    reader = StepReader(names, places, problems)
    spec = replace(spec, steps=reader.steps(steps, "workflow step"))
    passed = None if known.is_logged and "inputs" not in settings else spec.inputs
    check_workflow(spec, places, problems, agents=known.agents, tools=tools, inputs=passed)
    return spec if files is None else files.read(spec, places, problems)


def _workflow(file: Fields, problems: Problems) -> tuple[tuple[Node, ...], Fields | None]:
    """Return the nodes of the steps, and the mapping that they are in, if it is one."""
    node = file.given("workflow")
    settings = None
    if isinstance(node, MappingNode):
        settings = Fields(node, "workflow", problems)
        settings.refuse_unknown(OF_MAPS)
        steps, line = settings.given("steps"), settings.line_of("steps")
    else:
        steps, line = node, file.line_of("workflow")
    if isinstance(steps, ListNode) and steps.items:
        return steps.items, settings
    if steps is None or isinstance(steps, ListNode):
        problems.add(line, NO_STEPS, _EXAMPLE)
    else:
        problems.add(steps.line, f"workflow: the steps must be a list, not {kind_of(steps)}", _EXAMPLE)
    return (), settings


def _settings(file: Fields, workflow: Fields | None) -> Fields:
    """Return the settings of a workflow, each of which stands in its file or beside its steps."""
    entries = {key: file.node.entries[key] for key in SETTINGS if file.given(key) is not None}
    for key in SETTINGS:
        if workflow is not None and workflow.given(key) is not None:
            if key in entries:
                workflow.add(key, f"{key} is given for the file already", "Keep one of them")
            entries[key] = workflow.node.entries[key]
    return Fields(MappingNode(file.line, entries), "workflow", file.problems)


def _output(settings: Fields, places: SourceMap) -> tuple[str, ...]:
    node, texts = settings.given("output"), settings.texts("output") or ()
    places.add_use(OF_WORKFLOW, "output", node)
    if (isinstance(node, ListNode) and not node.items) or not all(text.strip() for text in texts):
        settings.add("output", "output names nothing", OUTPUT_HINT)
    return tuple(text if has_templates(text) else text.strip() for text in texts)


def _loops(settings: Fields, workflow: Fields | None) -> int:
    own, overrides = settings.whole("max_loop_iterations", 1), workflow.fields("overrides") if workflow else None
    if overrides is not None:
        overrides.refuse_unknown(("max_loop_iterations",))
        own = overrides.whole("max_loop_iterations", 1) or own
    return own or DEFAULT_LOOPS
