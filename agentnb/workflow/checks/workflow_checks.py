"""Checks of a complete workflow, once its steps have been parsed."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from agentnb.advice import GiveAgent
from agentnb.errors import suggest_names
from agentnb.tools.builtin.builtin_names import GROUPS
from agentnb.tools.mcp.mcp_server import is_word
from agentnb.tools.mcp.wire_names import is_named
from agentnb.workflow.checks.call_checks import Position, check_calls
from agentnb.workflow.checks.flow_checks import FlowChecks
from agentnb.workflow.checks.reference_checks import ReferenceChecks
from agentnb.workflow.form.agent_reader import SUB_AGENTS, DelegationCircle, delegation_order
from agentnb.workflow.form.fields import SourceMap
from agentnb.workflow.form.problems import Hint, Problems, note_no_tool
from agentnb.workflow.form.step_tree import Located, StepTree, names_of_tool_steps
from agentnb.workflow.form.workflow_spec import AgentSpec, AgentStep, GotoStep, WorkflowSpec
from agentnb.workflow.graph.nodes import Node
from agentnb.workflow.graph.of_workflow import compile_workflow
from agentnb.workflow.templates.templates import has_templates


def check_workflow(
    spec: WorkflowSpec,
    places: SourceMap,
    problems: Problems,
    *,
    agents: Collection[str] = (),
    tools: Collection[str] | None = None,
    inputs: Collection[str] | None = None,
) -> None:
    """Report problems with transitions and names.

    ``agents``: names of agents passed from Python; ``tools`` and ``inputs``: the available names, if known. If
    ``tools`` maps names to schemas, the arguments of tool steps are checked too.
    """
    tree, agent_names = StepTree(spec.steps), dict.fromkeys([*spec.agents, *agents])
    graph = compile_workflow(spec)
    if tools is not None:

        def locate(node: Node) -> Position:
            name, arguments = (places.line(node.path, key, node.line) for key in ("name", "args"))
            return Position(places.names.get(node.path, f"step {node.path}"), name, arguments)

        tools = _with_words(tools, names_of_tool_steps(located.step for located in tree.all))
        check_calls(graph, tools, has_templates, problems, locate)
    for located in tree.all:
        _check_agent(located, tree, agent_names, places, problems)
    _check_sub_agents(spec.agents, agent_names, places, problems)
    checks = ReferenceChecks(tree, spec.agents, places, problems, agents, inputs)
    checks.check()
    FlowChecks(graph, tree, checks.reads, places, problems).check()


def check_made_in_python(spec: WorkflowSpec, agents: Collection[str]) -> None:
    """Raise `WorkflowProblems` for invalid transitions and unknown agents.

    For a workflow built in Python rather than parsed from text.
    """
    problems = Problems()
    check_workflow(spec, SourceMap(), problems, agents=agents)
    problems.check()


def _check_agent(located: Located, tree: StepTree, agents: Collection[str], places: SourceMap, problems: Problems) -> None:
    step = located.step
    where, line = places.names.get(step.path, f"step {step.path}"), places.line(step.path, "name", step.line)
    if isinstance(step, AgentStep):
        if step.agent not in agents:
            missing = GiveAgent(step.agent, lead="Declare it under agents:, or pass it")
            problems.add(
                line, f'{where}: agent "{step.agent}" not found in agents', lambda: suggest_names(step.agent, agents) or missing
            )
        if isinstance(step.context, tuple):
            seen = ChainMap(tree.in_no_block, tree.beside(located))
            for wanted in step.context:
                if wanted not in seen and wanted not in places.unread:
                    problem, hint = _not_seen(wanted, located, tree, seen)
                    problems.add(places.line(step.path, "context", step.line), f"{where}: context: {problem}", hint)


def known_tools(
    tools: Collection[str] | None, agents: Mapping[str, AgentSpec], places: SourceMap, problems: Problems
) -> Collection[str] | None:
    """Return the available tools and the agents' MCP server words; report the agents' unknown tools."""
    if tools is None:
        return None
    known_names = _with_words(tools, (name for agent in agents.values() for name in agent.tools))
    for agent in agents.values():
        for name in agent.tools:
            if name not in known_names and name not in GROUPS and not is_named(name, known_names):
                note_no_tool(name, known_names, problems, places.line(agent.name, "tools"), f'agent "{agent.name}"')
    return known_names


def _check_sub_agents(agents: Mapping[str, AgentSpec], known: Collection[str], places: SourceMap, problems: Problems) -> None:
    for name, agent in agents.items():
        line = places.line(name, SUB_AGENTS, agent.line)
        for sub_agent in agent.sub_agents:
            if sub_agent not in known:
                problem = f'agent "{name}": {SUB_AGENTS}: agent "{sub_agent}" not found in agents'
                problems.add(line, problem, partial(suggest_names, sub_agent, known))
    try:
        delegation_order(agents)
    except DelegationCircle as circle:
        line = places.line(circle.agent, SUB_AGENTS, agents[circle.agent].line)
        problems.add(line, f'agent "{circle.agent}": {SUB_AGENTS}: {circle.what}', circle.advice)


def _with_words(tools: Collection[str], words: Iterable[str]) -> Collection[str]:
    """Return the tools, and those of the words that name MCP servers."""
    more = {word: dict[str, Any]() for word in words if is_word(word)}
    if not more:
        return tools
    return ChainMap(more, dict(tools)) if isinstance(tools, Mapping) else (*tools, *more)


def _not_seen(wanted: str, viewer: Located, tree: StepTree, seen: Collection[str]) -> tuple[str, Hint]:
    """Return the reason why a step cannot see another step's output, and a hint."""
    target = tree.by_id.get(wanted)
    if target is None or isinstance(target.step, GotoStep):
        return f'there is no step "{wanted}"', partial(suggest_names, wanted, seen)
    outermost = target.blocks[0].step
    if viewer.blocks and viewer.blocks[0].step.path == outermost.path:
        return f"{wanted} runs at the same time, so its output is not available here", ""
    return f"{wanted} is in the {outermost.kind} block {outermost.id}", f"Write {outermost.id}"
