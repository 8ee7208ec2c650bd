"""The agents of a workflow, declared in the file or passed from Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.extension import each, without_model
from agentnb.agent.price_check import check_has_price
from agentnb.core.log import work_events as w
from agentnb.core.log.stores import ReopeningStore
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.errors import MissingKey, ScriptEnded, SettingsError, UnknownTool
from agentnb.models.model import Model
from agentnb.models.registry import make_model
from agentnb.models.scripted import ScriptedModel
from agentnb.policies.gates import Gate, OnCopy
from agentnb.policies.gates.call_count import CallCount
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.rule_words import known_rules
from agentnb.runtime.budget import OWN, Budget
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.steps.step_failures import error_for
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.mcp.mcp_server import is_word
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.tools.tool import Tool
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.form.agent_reader import delegation_order
from agentnb.workflow.form.problems import advice_on_tool
from agentnb.workflow.form.step_tree import names_of_tool_steps, walk_all
from agentnb.workflow.form.workflow_spec import AgentSpec, AgentStep, WorkflowSpec
from agentnb.workflow.templates.templates import Scope, render_text

Replies = Mapping[str, Sequence[Any]]
"""Scripted replies by step path or agent name: texts, tool calls, or ``{"error": "timeout"}``."""


class WorkflowAgents:
    """Provides the agent of each step."""

    def __init__(
        self,
        spec: WorkflowSpec,
        given: Mapping[str, Agent],
        tools: Iterable[Any] = (),
        model: str | Model | None = None,
        replies: Replies | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """``given``: Python agents, which replace those of the file; ``model``: the model for agents that do not name one;
        ``settings``: settings for all agents of the file, such as ``gates``.
        """
        self._is_typed, specs = spec.is_typed, spec.agents
        self._specs = specs
        self._given = given
        of_agents = (name for agent in spec.agents.values() for name in agent.tools)
        self.toolbox = Toolbox(tools).with_words([*names_of_tool_steps(walk_all(spec.steps)), *of_agents])
        self._model = model
        self._replies = {} if replies is None else replies
        self._is_scripted = replies is not None
        self._settings = dict(settings or {})
        self.rule_scope = (
            self.toolbox,
            *given.values(),
            *dict.fromkeys(name for declared in specs.values() for name in declared.sub_agents),
        )
        """Scope of rules shared by all agents of the file: the tools of every agent."""
        if "permissions" in self._settings:
            self._settings["permissions"] = known_rules(RuleList.of(self._settings["permissions"]), self.rule_scope)
        self.gates = tuple(gates_of(self._settings))
        """The gates in these settings; they also check the calls made by steps."""
        self._made: dict[str, Agent] = {}
        self._scripts: dict[str, ScriptedModel] = {}
        self._used: Counter[str] = Counter()
        self._fixed = set[str]()
        """Agents with no templates in their own instruction or in those of their sub-agents."""
        for name in delegation_order(specs):
            if name in given or ("{{" not in specs[name].instruction and self._fixed.issuperset(specs[name].sub_agents)):
                self._fixed.add(name)
        self._own_scripts = {name: script_of(name, declared.replies) for name, declared in specs.items() if declared.replies}
        for name in [*specs, *given]:  # find settings errors before anything runs
            self._agent(name, None)

    def agent_for(self, name: str, path: str, scope: Scope | None, made: dict[str, Agent] | None = None) -> Agent:
        """Return the agent of a step, with the templates of its instruction replaced.

        ``made``: the agents already created for this step.
        """
        agent = self._agent(name, scope, made)
        script = self._script_for(path, name)
        return agent if script is None else replace(agent, model=script, extensions=without_model(agent.extensions))

    def check_prices(self, steps: Iterable[AgentStep], budget: Budget) -> None:
        """Raise `SettingsError` if an agent's model has no known price although the run or the agent limits its cost."""
        agents = {name: self._agent(name, None) for name in (*self._specs, *self._given) if name not in self._replies}
        budgets = {
            name: Budget(agent.limits.budget, within=budget, is_of_file=OWN in agent.limits.limits_of_file)
            for name, agent in agents.items()
        }
        limited = {name for name, limit in budgets.items() if limit.has_limit()}
        for step in steps if limited else ():
            if step.agent in limited and step.path not in self._replies:
                limited.discard(step.agent)
                agent = agents[step.agent]
                with suppress(MissingKey):  # reported by the step, if it is ever reached
                    whose = f"Agent {step.agent} of step {step.path}"
                    check_has_price(make_model(agent.used_model), agent, budgets[step.agent], whose)

    def check_tools(self, names: Iterable[str]) -> None:
        """Raise `UnknownTool` for a name that no tool has. Tools of MCP servers are known only once a run has connected."""
        for name in names:
            if not self.toolbox.may_have(tool_of_word(name)):
                find_tool(name, self.toolbox)

    def continue_scripts(self, log: EventLog) -> None:
        """Advance the scripts of a recovered run to the position reached in its log."""
        self._used = replies_used(log, lambda path, name: path if path in self._replies else name)
        for name, script in self._own_scripts.items():
            script.used = self._used[name]
        for key, script in self._scripts.items():
            script.used = self._used[key]

    def _agent(self, name: str, scope: Scope | None, agents: dict[str, Agent] | None = None) -> Agent:
        if name in self._given:
            return self._given[name]
        agents = self._made if name in self._fixed else {} if agents is None else agents
        if name not in agents:
            agents[name] = self._make(self._specs[name], scope, agents)
        return agents[name]

    def _make(self, spec: AgentSpec, scope: Scope | None, made: dict[str, Agent]) -> Agent:
        model: Any = self._own_scripts.get(spec.name) or spec.model or self._model
        if model is None:
            if not self._is_scripted:
                problem = f"The agent {spec.name} has no model"
                raise SettingsError(problem, "Set one in the file (model: provider:name), or run the workflow with model=")
            model = script_of(spec.name, ())
        fields = {"guidance": spec.guidance, "policy": spec.policy, "output": spec.structured_output}
        settings = {key: value for key, value in fields.items() if value is not None}
        instruction = spec.instruction if scope is None else render_text(spec.instruction, scope)
        box = self.toolbox
        tools: list[Any] = [tool for word in spec.tools for tool in box.of_word(word) or [find_tool(word, box)]]
        tools += [self._sub_agent(name, scope, made) for name in spec.sub_agents]
        return Agent(
            model,
            tools=tools,
            system=instruction or None,
            name=spec.name,
            limits_of_file=self._limits_of_file(spec),
            **{**self._settings, **settings, **spec.limits, "permissions": self._rules_of(spec)},
        )

    def _rules_of(self, spec: AgentSpec) -> RuleList:
        """Combine the file's denials with the rules of the settings."""
        return RuleList.of(dict.fromkeys(spec.deny, "deny")).then(RuleList.of(self._settings.get("permissions")))

    def _sub_agent(self, name: str, scope: Scope | None, made: dict[str, Agent]) -> AgentTool:
        """Return the tool that delegates a task to an agent."""
        description = self._specs[name].description if name in self._specs else None
        return AgentTool(self.agent_for(name, name, scope, made), description=description)

    def _limits_of_file(self, spec: AgentSpec) -> list[str]:
        """Return the limits set only by the file, excluding any that the settings repeat; none for a typed file."""
        names = [] if self._is_typed else [name for name in (OWN, "unpriced") if name in spec.limits]
        return [name for name in names if not (name == "unpriced" and self._settings.get(name))]

    def _script_for(self, path: str, name: str) -> ScriptedModel | None:
        key = path if path in self._replies else name
        if key not in self._replies:
            return None
        if key not in self._scripts:
            self._scripts[key] = script_of(key, self._replies[key], self._used[key])
        return self._scripts[key]


def find_tool(name: str, toolbox: Toolbox) -> Tool:
    """Return the tool with this name, or the tool that a word such as ``mcp:clock/now`` refers to. Raises `UnknownTool`."""
    tool = toolbox.get(name) or toolbox.get(tool_of_word(name))
    if tool is None and is_word(name):
        raise UnknownTool(f"{name} names all tools of a server, but a step calls a single tool", f"Write {name}/TOOL")
    if tool is None:
        raise UnknownTool(f"There is no tool {name}", advice_on_tool(name, [item.spec.name for item in toolbox]))
    return tool


def script_of(name: str, replies: Sequence[Any], used: int = 0) -> ScriptedModel:
    """Return the scripted model of a step or agent, with the first ``used`` replies consumed."""
    lines = [error_for(str(item["error"])) if isinstance(item, dict) and set(item) == {"error"} else item for item in replies]
    return _KeyedScript(lines, name=f"scripted:{name}", used=used)


class _KeyedScript(ScriptedModel):
    """The script of a step or agent, whose error names its key in ``replies=``."""

    def _end_error(self, count: int) -> ScriptEnded:
        key, replies = self.name.removeprefix("scripted:"), len(self._replies)
        or_model = "" if replies else ", or give the agent a model"
        problem = f"Reply {count} of {key} was requested, but replies= has {replies} for it"
        return ScriptEnded(problem, f'Add it: replies={{"{key}": [...]}}{or_model}')


def gates_of(agent_settings: Mapping[str, Any]) -> Iterator[Gate]:
    """Yield the gates in the settings of a workflow's agents; they also check the calls made by its steps.

    Loop guards are omitted, since a workflow repeats and retries on purpose.
    """
    in_run, in_turn = agent_settings.get("max_tool_calls"), agent_settings.get("max_tool_calls_per_turn")
    if in_run is not None or in_turn is not None:
        yield CallCount(in_run, in_turn)
    yield from map(OnCopy, each(agent_settings.get("extensions") or (), "gates"))
    yield from map(OnCopy, agent_settings.get("gates") or ())


def replies_used(log: EventLog, script_of: Callable[[str, str], str]) -> Counter[str]:
    """Count the replies that the run's agents have consumed, by script.

    ``script_of``: returns the script for a step path and an agent name. Replies that were not logged before the process died do
    not count; nor do replies of a run that this one continues.
    """
    used: Counter[str] = Counter()
    store = log.store
    if not isinstance(store, ReopeningStore):
        return used
    for event in log.run.events:
        if isinstance(event, w.StepStarted) and event.nested and event.step_kind == "agent" and store.has(event.nested):
            run: Run = store.load(event.nested)
            if run.parent_id == log.id:
                used[script_of(event.step, event.agent)] += sum(_is_answered(run, round_) for round_ in run.rounds)
                for sub_agent in _nested_runs(run, store):
                    used[script_of("", sub_agent.agent)] += len(sub_agent.rounds)
    return used


def _nested_runs(run: Run, store: ReopeningStore) -> Iterator[Run]:
    """Yield the runs nested in a run's finished calls, at every depth."""
    for round_ in run.rounds:
        for child in (child for call in round_.records for child in call.nested if store.has(child.run_id)):
            if (inner := store.load(child.run_id)).parent_id == run.id:  # else the log claims another run as its own
                yield inner
                yield from _nested_runs(inner, store)


def _is_answered(run: Run, round_: WorkflowRound) -> bool:
    """True if the model returned a reply or an error; both are logged before the round ends."""
    return round_.reply is not None or round_.status == "error" or (run.error is not None and round_ is run.open_round)
