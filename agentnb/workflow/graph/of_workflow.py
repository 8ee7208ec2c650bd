"""Compiler from workflow files to graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentnb.errors import ExpressionError
from agentnb.workflow.form import workflow_spec as s
from agentnb.workflow.form.step_tree import lists_in, walk, with_branches
from agentnb.workflow.graph.nodes import Call, Decide, Each, Graph, Jump, Node, Together, is_constant
from agentnb.workflow.templates.templates import references


def compile_workflow(spec: s.WorkflowSpec) -> Graph:
    """Compile a workflow to its graph."""
    nodes = _Compiler(spec.steps).nodes(spec.steps)
    return Graph(where="workflow", nodes=nodes, max_loops=spec.max_loop_iterations, output=spec.output)


class _Compiler:
    """Compiler of one workflow's steps."""

    def __init__(self, steps: Sequence[s.Step]) -> None:
        self._ids = [step.id for step in steps]
        self._places = {name: position for position, name in reversed([*enumerate(self._ids)])}
        try:
            self._early = dict(find_deferred(steps))
        except ExpressionError:  # an invalid condition, which fails when evaluated
            self._early = {}

    def nodes(self, steps: Sequence[s.Step]) -> tuple[Node, ...]:
        return tuple([self._node(step) for step in steps])

    def _node(self, step: s.Step) -> Node:
        if isinstance(step, s.GotoStep):
            return Node(kind="", id=step.id, path=step.path, line=step.line, jumps=(self._jump(step.target),))
        return Node(
            kind=step.kind,
            id=step.id,
            path=step.path,
            line=step.line,
            does=self._work(step),
            early=self._early.get(step.path, 0),
            jumps=(self._jump(s.END),) if step.end else (),
            rescue=None if step.on_error.goto is None else self._jump(step.on_error.goto),
            retry=step.retry,
            timeout=step.timeout,
            instead=(step.on_error.continue_with,) if step.on_error.continues else (),
        )

    def _jump(self, target: str | int) -> Jump:
        if target == s.END:
            return Jump(to=s.END, place=len(self._ids), is_logged=False)
        if isinstance(target, str):
            return Jump(to=target, place=self._places.get(target, -1))
        return Jump(to=self._ids[target], place=target) if 0 <= target < len(self._ids) else Jump(to=str(target))

    def _work(self, step: s.Step) -> object:
        if isinstance(step, s.ToolStep):
            return Call(name=step.tool, args=step.args, is_constant=is_constant(step.args, "{{"))
        if isinstance(step, s.ConditionStep):
            branches = {"true": self.nodes(step.true_), "false": self.nodes(step.false_)}
            names = tuple([member.id for member in with_branches(step)])
            return Decide(condition=step.condition, branches=branches, names=names)
        if isinstance(step, s.ParallelStep):
            return Together(nodes=self.nodes(step.steps), most=step.max_concurrency)
        if isinstance(step, s.MapStep):
            return Each(over=step.over, node=self._node(step.step), most=step.max_concurrency)
        return step


def find_deferred(steps: Sequence[s.Step]) -> Iterator[tuple[str, int]]:
    """Yield the paths of conditions that read later siblings, each with the number of steps to run before it."""
    places = {inner.id: position for position, step in enumerate(steps) for inner in walk(step)}  # a branch adds no level
    for position, step in enumerate(steps):
        if isinstance(step, s.ConditionStep):
            read = [path.parts[0] for path in references(step.condition) if path.root == "$steps" and path.parts]
            if (count := max([0, *(places.get(str(name), position) - position for name in read)])) > 0:
                yield step.path, count
            for branch in lists_in(step):
                yield from find_deferred(branch)
        else:
            for child in (nested for children in lists_in(step) for nested in children):
                yield from find_deferred([child])  # siblings in a block do not wait for each other
