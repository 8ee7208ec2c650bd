"""A workflow: reading it from YAML, checking and running it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from agentnb.advice import ListRuns
from agentnb.agent.agent import Agent
from agentnb.agent.from_log import is_trusted, with_builtins
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.models.model import Model
from agentnb.models.registry import check_destinations
from agentnb.policies.gates import Gate
from agentnb.runtime.budget import OWN, Budget
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunKeywords, RunOptions, options_of
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.tools.agent_tool import ToolOffer, neutral_description
from agentnb.tools.builtin.builtin_names import KnownSchemas, logged_builtins
from agentnb.tools.mcp.mcp_server import resolve_servers
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.checks.workflow_checks import check_made_in_python
from agentnb.workflow.defaults import DEFAULT_PLANS
from agentnb.workflow.files.declared_files import (
    WorkflowDefinition,
    drawing_of,
    mark_typed,
    model_names,
    tool_names,
    tool_names_of_files,
    without_folders,
)
from agentnb.workflow.files.logged_workflow import keep_workflow, logged_files
from agentnb.workflow.files.nested_files import file_text, path_beside
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.problems import Problem
from agentnb.workflow.form.step_tree import names_of_tool_steps, walk_all
from agentnb.workflow.form.workflow_spec import AgentStep, Step, WorkflowSpec, WorkflowStep
from agentnb.workflow.graph.mermaid import mermaid
from agentnb.workflow.graph.node_states import node_states
from agentnb.workflow.graph.nodes import Graph
from agentnb.workflow.graph.of_workflow import compile_workflow
from agentnb.workflow.plans.default_planner import PLANNER, planner_text
from agentnb.workflow.plans.planner import PLAN_ACTIONS
from agentnb.workflow.resumed_runs import check_agents_again, earlier_events, needed_again, rerun_of
from agentnb.workflow.running.agents import Replies, WorkflowAgents
from agentnb.workflow.running.failed_together import raise_if_failed
from agentnb.workflow.running.graph_run import GraphRun
from agentnb.workflow.running.step_handlers import StepHandlers
from agentnb.workflow.tasks.action_table import Action, ActionTable
from agentnb.workflow.tasks.task_orchestration import task_orchestration
from agentnb.workflow.tasks.task_spec import TaskFile
from agentnb.workflow.templates.templates import Scope

CELL = "cell"
"""Origin, in the log, of a workflow that the person typed."""


class WorkflowSettings(TypedDict, total=False):
    """Keywords of `Workflow.orchestration` and of every function that starts a workflow."""

    agents: Mapping[str, Agent] | None
    tools: Iterable[Any]
    model: str | Model | None
    replies: Replies | None
    inputs: Mapping[str, Any] | None
    rerun_from: str | None
    of: Run | None
    actions: Mapping[str, Action] | None
    budget: float | None
    max_seconds: float | None
    agent_settings: Mapping[str, Any] | None
    gates: Iterable[Gate]
    settings: Mapping[str, Any] | None
    checks_files: bool


class WorkflowKeywords(RunKeywords, WorkflowSettings, total=False):
    """Keywords of every function that starts a workflow: options of the run and settings of the workflow."""


@dataclass(frozen=True)
class Workflow:
    """A reusable workflow. Runs do not change it, so they may overlap.

    ``spec`` is the parsed workflow; ``agents`` and ``tools`` are the Python objects with which it was read.
    """

    spec: WorkflowSpec
    agents: Mapping[str, Agent] | None = None
    tools: tuple[Any, ...] = ()
    tasks: TaskFile | None = None
    """The parsed task file, if the workflow was read from one; ``spec`` then has no steps."""

    @classmethod
    def from_yaml(
        cls,
        text_or_path: str | Path,
        *,
        strict: bool = False,
        agents: Mapping[str, Agent] | None = None,
        tools: Iterable[Any] | None = None,
        inputs: Collection[str] = (),
        checks_actions: bool = False,
    ) -> Workflow:
        """Read a workflow (``workflow:``) or a task file (``stage:``) from YAML text or a path.

        ``agents``: Python agents by name, which are added to those of the file or replace them. ``tools``: all functions that
        its agents, tool steps and tasks may name; if omitted, names are resolved when it runs. ``inputs``: names of inputs that
        a task file receives in addition to its declared variables. ``strict``: treat warnings as problems. ``checks_actions``:
        let tasks use only these tools and agentnb's own actions. Raises `WorkflowProblems` with every problem and its line.
        """
        own_tools, path = tuple(tools or ()), _path(text_or_path)
        text = str(text_or_path) if path is None else file_text(path)
        source = "" if path is None else str(path)
        toolbox = Toolbox(own_tools)
        check = ActionTable(toolbox.with_words(KnownSchemas()), PLAN_ACTIONS).note if checks_actions else None
        words: dict[str, Any] = {item.word: {} for item in toolbox.servers}
        schemas = KnownSchemas({**{spec.name: spec.input_schema for spec in toolbox.specs}, **words})
        names = None if tools is None else schemas if checks_actions else tuple(schemas)
        options: dict[str, Any] = {"agents": tuple(agents or ()), "tools": names, "inputs": inputs, "check_actions": check}
        return cls.of_declared(read_workflow(text, source, strict=strict, with_files=True, **options), agents, own_tools)

    @classmethod
    def planner(cls, tools: Iterable[Any] = (), *, max_plan_iterations: int = DEFAULT_PLANS) -> Workflow:
        """Return a workflow in which a planner and an executor with these tools alternate; its prompt is the
        question.

        Run ``inputs``: ``context``, ``promptTemplate``, ``tools`` (names), ``results`` and ``transcript`` of earlier
        runs. ``workflow.tasks.text`` is its task file.
        """
        return cls.of_declared(read_workflow(planner_text(max_plan_iterations), PLANNER), None, tuple(tools))

    @classmethod
    def of_run(cls, run: Run, *, agents: Mapping[str, Agent] | None = None, tools: Iterable[Any] = ()) -> Workflow:
        """Load the workflow of a run from its log. ``agents`` and ``tools`` are the Python objects that the run used.

        Raises `SettingsError` for another kind of run and for a missing agent.
        """
        logged = run.settings.get("workflow")
        if not isinstance(logged, dict) or not isinstance(logged.get("text"), str):
            raise SettingsError(f"Run {run.id} is not a run of a YAML workflow", ListRuns(rest=" lists runs"))
        text, source, tools = logged["text"], str(logged.get("source") or ""), with_builtins(run, tools)
        files = logged_files(run.settings)
        names, inputs = check_agents_again(run, agents or {}), run.settings.get("inputs") or ()
        options: dict[str, Any] = {"agents": names, "inputs": inputs, "is_logged": True}
        declared = read_workflow(text, source, with_files=files is not None, texts=files, **options)
        if not is_trusted(run):
            return cls.of_declared(without_folders(declared), agents, tools)
        workflow = cls.of_declared(declared, agents, tools)
        return workflow.as_typed() if logged.get("from") == CELL else workflow

    @classmethod
    def of_declared(
        cls, declared: WorkflowDefinition, agents: Mapping[str, Agent] | None = None, tools: tuple[Any, ...] = ()
    ) -> Workflow:
        """Build a workflow from its parsed file, in either form."""
        if not isinstance(declared, TaskFile):
            return cls(declared, agents, tools)
        fields = {name: getattr(declared, name) for name in ("limits", "source", "text", "warnings")}
        return cls(WorkflowSpec(steps=(), **fields), agents, tools, declared)

    def as_typed(self) -> Workflow:
        """Return a copy marked as typed by the person: models in its own text may have any address."""
        return replace(self, spec=mark_typed(self.spec))

    def mermaid(self, run: Run | None = None) -> str:
        """Return a Mermaid flowchart. With a run, colour the steps by status and count the loops in it."""
        graph = drawing_of(self.declared)
        return mermaid(graph, None if run is None else node_states(graph, run))

    @property
    def declared(self) -> WorkflowDefinition:
        """The parsed file, in either form."""
        return self.spec if self.tasks is None else self.tasks

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Unique names of the tools used by its steps and agents."""
        return tool_names(self.declared)

    @property
    def step_paths(self) -> tuple[str, ...]:
        """Paths of all steps or tasks, including nested ones, in file order."""
        steps = self._steps if self.tasks is None else self.tasks.tasks
        return tuple([step.path for step in steps])

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Probable mistakes."""
        return self.spec.warnings

    async def run(self, prompt: str = "", options: RunOptions | None = None, **keywords: Unpack[WorkflowKeywords]) -> Run:
        """Run to completion on the running event loop; plain tools run in threads.

        Keywords are the settings of `orchestration` and the options of a run, as for `Agent.run`. ``model``: the model for
        agents that do not name one; ``replies``: scripted replies by step path or agent name, in place of models; ``inputs``:
        values of ``$inputs.name``, or the variables of a task file, whose ``query`` is the prompt; ``actions``: functions,
        other than tools, that tasks may call by name. ``rerun_from`` and ``of``: begin at the step with this id, using that
        run's outputs of earlier steps. ``suspend``: if nobody can answer a question, end as ``waiting_on_user``, to be resumed
        with the answer (`recover`). ``run.text`` is the result that ``output:`` names, otherwise the output of the last step.
        Raises `WorkflowError` on failure; ``error.run`` is the run, with the outputs so far.
        """
        orchestration, prompt, options = self._prepare(prompt, options, keywords, "workflow.run(prompt")
        return raise_if_failed(await orchestration.run(prompt, options))

    def start(self, prompt: str = "", options: RunOptions | None = None, **keywords: Unpack[WorkflowKeywords]) -> LiveRun:
        """Start a run in the background and return its handle at once; keywords as for `run`."""
        orchestration, prompt, options = self._prepare(prompt, options, keywords, "workflow.start(prompt")
        return orchestration.start(prompt, options)

    def run_sync(self, prompt: str = "", options: RunOptions | None = None, **keywords: Unpack[WorkflowKeywords]) -> Run:
        """Run like `run`, for use in scripts and code that cannot await, even inside a running event loop.

        The calling thread runs the plain tools while it waits.
        """
        orchestration, prompt, options = self._prepare(prompt, options, keywords, "workflow.run_sync(prompt")
        return raise_if_failed(orchestration.run_sync(prompt, options))

    def _prepare(
        self, prompt: str, options: RunOptions | None, keywords: Any, door: str
    ) -> tuple[Orchestration, str, RunOptions]:
        # Popped: inputs are copied, so the originals can be freed while the copy is in use.
        settings = {name: keywords.pop(name) for name in WorkflowSettings.__annotations__ if name in keywords}
        options = options_of(options, keywords, RunKeywords, door)
        return self.orchestration(**settings), self.prompt_of(prompt, settings.get("inputs")), options

    def orchestration(
        self,
        *,
        agents: Mapping[str, Agent] | None = None,
        tools: Iterable[Any] = (),
        model: str | Model | None = None,
        replies: Replies | None = None,
        inputs: Mapping[str, Any] | None = None,
        rerun_from: str | None = None,
        of: Run | None = None,
        actions: Mapping[str, Action] | None = None,
        budget: float | None = None,
        max_seconds: float | None = None,
        agent_settings: Mapping[str, Any] | None = None,
        gates: Iterable[Gate] = (),
        settings: Mapping[str, Any] | None = None,
        checks_files: bool = True,
    ) -> Orchestration:
        """Return an `Orchestration`. ``budget`` (US dollars), ``max_seconds``: override the file; ``agent_settings`` and
        ``gates``: those for its agents and steps; ``settings``: data to log; ``checks_files``: whether to check its files.
        Raises `SettingsError`.
        """
        earlier, limits = earlier_events(self.declared, rerun_from, of), self._limits(budget, max_seconds)
        keep_workflow(self.declared)
        models: dict[str, Any] = {"model": model, "replies": replies, "agent_settings": _with_gates(agent_settings, gates)}
        all_tools = (*self.tools, *tools)
        if self.tasks is not None:
            options = {"models": models, "limits": limits, "settings": needed_again(**models) | dict(settings or {})}
            return task_orchestration(self.tasks, inputs or {}, all_tools, {**PLAN_ACTIONS, **(actions or {})}, **options)
        by_name, values = {**(self.agents or {}), **(agents or {})}, self._inputs(inputs)
        team = WorkflowAgents(self.spec, by_name, all_tools, model=model, replies=replies, settings=models["agent_settings"])
        self._check_names(team, replies, by_name, model)
        files = _NestedWorkflows(self.spec, by_name, all_tools, {**models, "actions": actions})
        inner = files.check(self._steps) if checks_files else []
        servers = resolve_servers([*team.toolbox.servers, *(item for nested in inner for item in nested.server_tools)])

        def make(lifecycle: Lifecycle, elicitation: Elicitation) -> GraphRun:
            begins = rerun_of(run) if (run := lifecycle.log.run).events else (rerun_from, earlier)
            hands, scope = lambda steps, _: StepHandlers(steps, team, files), Scope.of_inputs(values)
            return GraphRun(lifecycle, elicitation, self._graph, hands, scope, *begins)

        logged = self._log_settings(values, rerun_from, of, len(earlier)) | needed_again(**models)
        logged |= logged_builtins(team.toolbox) | dict(settings or {})
        fields = {"name": self._name, "rule_scope": (*team.rule_scope, *inner), "settings": logged, "begins_with": of, **limits}
        return Orchestration(make=make, check=self._price_check(team, inner), server_tools=servers, **fields)

    def _price_check(self, team: WorkflowAgents, inner: Iterable[Orchestration]) -> Callable[[Budget], None]:
        """Return a check that models have the prices that a budget needs. ``inner``: runs of the files that it uses."""
        steps = [step for step in self._steps if isinstance(step, AgentStep)]

        def check(budget: Budget) -> None:
            team.check_prices(steps, budget)
            for nested in inner:
                if nested.check is not None:
                    nested.check(Budget(nested.budget, within=budget, is_of_file=OWN in nested.limits_of_file))

        return check

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        """All steps, including nested ones, in file order."""
        return tuple(walk_all(self.spec.steps))

    @cached_property
    def _checked_with(self) -> set[frozenset[str]]:
        """The sets of agent names for which a workflow made in Python has passed its checks."""
        return set()

    @cached_property
    def _graph(self) -> Graph:
        return compile_workflow(self.spec)

    @property
    def rule_scope(self) -> tuple[Any, ...]:
        """The tools and agents of its steps, for permission rules."""
        return (*self.tools, *(self.agents or {}).values(), *tool_names_of_files(self.declared))

    @property
    def tool_offer(self) -> ToolOffer:
        """Name and description as a tool; the name is the file's, if it has one."""
        is_named = bool(self.spec.source)
        return ToolOffer(self._name, neutral_description("workflow", self._name if is_named else ""), is_named)

    @property
    def _name(self) -> str:
        return Path(self.spec.source).stem if self.spec.source else "workflow"

    def _check_names(
        self, team: WorkflowAgents, replies: Replies | None, agents: Mapping[str, Agent], model: str | Model | None
    ) -> None:
        """Raise `SettingsError` for missing tools, forbidden model addresses, and replies for an unknown agent or
        step.

        Replies that match nothing are refused, because the intended agent would call a model instead.
        """
        if replies is None:
            check_destinations((*model_names(self.spec, agents), model))
        names = frozenset(agents)
        if not self.spec.text and names not in self._checked_with:
            check_made_in_python(self.spec, agents)
            self._checked_with.add(names)
        team.check_tools(names_of_tool_steps(self._steps))
        for name in replies or ():
            if not self.takes_replies(name, agents):
                known_names = {*self.spec.agents, *agents, *(step.id for step in self._steps)}
                raise SettingsError(f"replies: there is no agent or step {name}", suggest_names(name, sorted(known_names)))

    def takes_replies(self, name: str, agents: Iterable[str] = ()) -> bool:
        """True if replies with this name may belong to an agent or step of this workflow, to one of ``agents``, or to another
        file.
        """
        last = name.rpartition("/")[2]
        if any(isinstance(step, WorkflowStep) for step in self._steps):
            return True
        known_names = {*self.spec.agents, *agents, *(step.id for step in self._steps)}
        return name in known_names or last in known_names or last.isdecimal()

    def _log_settings(self, inputs: Mapping[str, Any], first: str | None, of: Run | None, earlier: int) -> dict[str, Any]:
        """Return the settings to log, which are sufficient to draw and resume the run."""
        workflow: dict[str, Any] = {"text": self.spec.text, "source": self.spec.source}
        if self.spec.is_typed:
            workflow["from"] = CELL
        if self.spec.nested:
            workflow["files"] = dict(self.spec.files)
        logged: dict[str, Any] = {"workflow": workflow, "inputs": inputs}
        if of is not None and first is not None:
            logged["rerun"] = {"step": first, "of": of.id, "events": earlier}
        return logged

    def prompt_of(self, prompt: str, inputs: Mapping[str, Any] | None) -> str:
        """Return the prompt of a run; for a task file, that is its input ``query``."""
        query = None if self.tasks is None or inputs is None else inputs.get("query")
        if prompt and query is not None:
            raise SettingsError("The prompt of a task file is its input query, but both were given", "Remove one of them")
        return query if isinstance(query, str) else prompt

    def _inputs(self, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
        inputs = inputs or {}
        for name in inputs:
            if name not in self.spec.inputs:
                hint = suggest_names(name, self.spec.inputs) or f"Declare it: inputs: {{{name}: DEFAULT}}"
                raise SettingsError(f"The workflow has no input {name}", hint)
        return dict(plain_data({**self.spec.inputs, **inputs}, "The inputs"))  # the form that the log has

    def _limits(self, budget: float | None, max_seconds: float | None) -> dict[str, Any]:
        limits = {"budget": budget, "max_seconds": max_seconds}
        limits = {name: value for name, value in limits.items() if value is not None}
        of_file = () if self.spec.is_typed else tuple([name for name in self.spec.limits if name not in limits])
        return {**self.spec.limits, **limits, "limits_of_file": of_file}


class _NestedWorkflows:
    """Workflows in other files that a workflow's steps run; they are loaded with it or on demand."""

    def __init__(
        self, spec: WorkflowSpec, agents: Mapping[str, Agent], tools: tuple[Any, ...], settings: Mapping[str, Any]
    ) -> None:
        """``spec``: the parent workflow; ``settings``: the settings passed to `Workflow.orchestration`."""
        self._source = spec.source
        self._nested = spec.nested
        self._agents = agents
        self._tools = tools
        self._settings = settings
        self._found: dict[str, Workflow] = {}
        """Workflows found so far, by step path."""

    def __call__(self, step: WorkflowStep, inputs: Mapping[str, Any], before: Run | None) -> Orchestration:
        """Return the workflow of a step; for a resumed run, the one in its log."""
        if before is not None and "workflow" in before.settings:
            logged = Workflow.of_run(before, agents=self._agents, tools=self._tools)
            return self._runs_of(logged, inputs, checks_files=False)
        return self._runs_of(self._workflow(step, inputs), inputs, checks_files=False)

    def check(self, steps: Iterable[Step]) -> list[Orchestration]:
        """Check the files of these steps before anything runs, and return their runs."""
        return [
            self._runs_of(self._workflow(step, step.inputs), step.inputs, checks_files=True)
            for step in steps
            if isinstance(step, WorkflowStep)
        ]

    def _runs_of(self, workflow: Workflow, inputs: Mapping[str, Any], *, checks_files: bool) -> Orchestration:
        replies = self._settings.get("replies")
        if replies is not None:  # others are for the parent or for sibling files
            replies = {name: value for name, value in replies.items() if workflow.takes_replies(name, self._agents)}
        return workflow.orchestration(inputs=inputs, checks_files=checks_files, **{**self._settings, "replies": replies})

    def _workflow(self, step: WorkflowStep, inputs: Mapping[str, Any]) -> Workflow:
        if step.path not in self._found:
            if (declared := self._nested.get(step.path)) is not None:
                workflow = Workflow.of_declared(declared, self._agents, self._tools)
            else:  # made in Python, or logged by an earlier version without the text of its files
                path = path_beside(self._source, step.file)
                workflow = Workflow.from_yaml(path, agents=self._agents, tools=self._tools, inputs=inputs)
            self._found[step.path] = workflow
        return self._found[step.path]


def _with_gates(agent_settings: Mapping[str, Any] | None, gates: Iterable[Gate]) -> Mapping[str, Any]:
    """Return the agents' settings with additional gates."""
    settings, more = agent_settings or {}, tuple(gates)
    return {**settings, "gates": (*(settings.get("gates") or ()), *more)} if more else settings


def _path(text_or_path: str | Path) -> Path | None:
    """Return the path, or None if the argument is YAML text."""
    if isinstance(text_or_path, str) and "\n" in text_or_path:
        return None
    path = Path(text_or_path).expanduser()
    if isinstance(text_or_path, str) and path.suffix not in (".yaml", ".yml"):
        return None
    return path
