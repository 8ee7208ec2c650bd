"""Parser and checks for workflows in either form; all problems are reported at once, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentnb.workflow.cagent.agent_file import as_workflow_file
from agentnb.workflow.checks.reference_checks import OUTPUT_HINT
from agentnb.workflow.checks.workflow_checks import check_workflow, known_tools
from agentnb.workflow.defaults import DEFAULT_LOOPS
from agentnb.workflow.files.declared_files import WorkflowDefinition
from agentnb.workflow.files.nested_files import NestedFiles
from agentnb.workflow.form.agent_reader import OF_WORKFLOWS, read_agents, read_limits
from agentnb.workflow.form.fields import OF_WORKFLOW, Fields, SourceMap
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.step_ids import named_steps
from agentnb.workflow.form.step_reader import StepReader
from agentnb.workflow.form.workflow_spec import WorkflowSpec
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, kind_of, read_mapping
from agentnb.workflow.tasks.task_file import CheckActions, is_task_file, read_tasks
from agentnb.workflow.templates.templates import has_templates

SETTINGS = ("inputs", "output", "limits", "max_loop_iterations")
"""Settings of a workflow, written beside ``workflow:`` or beside its ``steps:``."""
OF_FILES = ("agents", "workflow", *SETTINGS)
"""Top-level keys of a file."""
OF_MAPS = ("steps", *SETTINGS, "overrides")
"""Keys of a workflow written as a mapping instead of a list of steps."""
NO_STEPS = "workflow: no steps configured"
_PLAN = "Use %%plan, or Plan.read(TEXT) in Python; or write the steps below workflow:"
_EXAMPLE = "For example: workflow: [{type: agent, name: writer}]"


@dataclass(frozen=True, slots=True)
class Known:
    """Names to which files may refer."""

    agents: Collection[str] = ()
    """Names of agents passed from Python, which replace those of the files."""
    tools: Collection[str] | None = None
    """Names of all tools, optionally with schemas. If None, tools are not checked."""
    inputs: Collection[str] = ()
    """Names of a task file's inputs in addition to its declared variables."""
    check_actions: CheckActions | None = None
    """Reports unknown actions of tasks. If None, they are not checked."""
    is_logged: bool = False
    """True for the logged text of a run, whose inputs were checked when the run began."""


def read_workflow(
    text: str,
    source: str = "",
    *,
    strict: bool = False,
    with_files: bool = False,
    texts: Mapping[str, str] | None = None,
    **known: Any,
) -> WorkflowDefinition:
    """Parse YAML text in either form. Raises `WorkflowProblems` with all problems.

    ``source``: path of the file, for messages. ``strict``: treat warnings as problems. ``with_files``: also read
    nested files; ``texts``: their texts, from a log; ``known``: fields of `Known`. Warnings are in the result's
    ``.warnings``.
    """
    problems, names = Problems(source, strict), Known(**known)
    declared = read_with_problems(text, problems, names, nested_files(source, texts, names) if with_files else None)
    problems.check()
    return replace(declared, warnings=tuple(sorted(problems.warnings, key=lambda problem: problem.line)))


def nested_files(source: str, texts: Mapping[str, str] | None, known: Known = Known()) -> NestedFiles:
    """Return the loader of a workflow's nested files; see `read_workflow`."""

    def read(text: str, problems: Problems, files: NestedFiles, passed: Collection[str]) -> object:
        return read_with_problems(text, problems, replace(known, inputs=passed), files)

    return NestedFiles(read, source, texts)


def read_with_problems(
    text: str, problems: Problems, known: Known = Known(), files: NestedFiles | None = None
) -> WorkflowDefinition:
    """Parse a text in either form as far as possible, and add its problems to ``problems``; see `read_workflow`.

    ``files``: loader of nested files; by default they are ignored.
    """
    if is_task_file(text):
        return read_tasks(text, problems, known.inputs, known.check_actions)
    empty = WorkflowSpec(steps=(), source=problems.source, text=text)
    node = read_mapping(text, problems, "A workflow file", _EXAMPLE)
    if node is None:
        return empty
    if "steps" in node.entries and "workflow" not in node.entries:
        problems.add(node.entries["steps"].line, 'a text with "steps:" is a plan, not a workflow', _PLAN)
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
    """Return the step nodes and the mapping that encloses them, if any."""
    node = file.node_at("workflow")
    settings = None
    if isinstance(node, MappingNode):
        settings = Fields(node, "workflow", problems)
        settings.refuse_unknown(OF_MAPS)
        steps, line = settings.node_at("steps"), settings.line_of("steps")
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
    """Return the settings of a workflow, written at the top level of its file or beside its steps."""
    entries = {key: file.node.entries[key] for key in SETTINGS if file.node_at(key) is not None}
    for key in SETTINGS:
        if workflow is not None and workflow.node_at(key) is not None:
            if key in entries:
                workflow.add(key, f"{key} is already set for the whole file", "Keep one of them")
            entries[key] = workflow.node.entries[key]
    return Fields(MappingNode(file.line, entries), "workflow", file.problems)


def _output(settings: Fields, places: SourceMap) -> tuple[str, ...]:
    node, texts = settings.node_at("output"), settings.texts("output") or ()
    places.add_use(OF_WORKFLOW, "output", node)
    if (isinstance(node, ListNode) and not node.items) or not all(text.strip() for text in texts):
        settings.add("output", "output is empty", OUTPUT_HINT)
    return tuple(text if has_templates(text) else text.strip() for text in texts)


def _loops(settings: Fields, workflow: Fields | None) -> int:
    own, overrides = settings.whole("max_loop_iterations", 1), workflow.fields("overrides") if workflow else None
    if overrides is not None:
        overrides.refuse_unknown(("max_loop_iterations",))
        own = overrides.whole("max_loop_iterations", 1) or own
    return own or DEFAULT_LOOPS
