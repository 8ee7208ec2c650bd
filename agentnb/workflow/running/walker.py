"""Graph walker: runs nodes in sequence, in the background, or in parallel.

A node is run in this order: dependencies, ``when``, work, ``post``, jumps. Decisions are logged (skipped nodes, jumps taken or
not, variables set by ``post``), so that a recovered run takes the same path. Node outputs are a fold over these events
(`agentnb.core.run.step_outputs`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from agentnb.core.log import work_events as w
from agentnb.errors import ExpressionError, StepFailed, WorkflowError
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.side_by_side import Running, has_ended, start_all
from agentnb.runtime.steps.step_failures import FailedStep, StepEndedBadly, StepFailure
from agentnb.runtime.steps.step_runner import StepRunner, Work
from agentnb.workflow.form.workflow_spec import END
from agentnb.workflow.graph.nodes import HANDLER, Await, Decide, Each, Graph, Jump, Node, Together
from agentnb.workflow.running.execution import ABORTED, ENDING, Aborted, Execution
from agentnb.workflow.templates.templates import Scope


class Hands(Protocol):
    """Handlers for the kinds of nodes that do work: tools, agents, questions and plans."""

    def begin(self, execution: Execution) -> tuple[Work, Mapping[str, Any]]:
        """Return the work of a node and its fields for the log.

        An error that makes the node fail before its work begins is stored in the execution.
        """

    def label(self, node: Node) -> str:
        """Return the label, for the log, of the node's worker."""


Handle = Callable[[Execution, str, str], Awaitable[None]]
"""Handles a failure of a node; takes the execution, the name of the failed part, and the error."""
MakeHands = Callable[[StepRunner, Handle], Any]
"""Makes `Hands` or, for nodes whose steps are not always logged, an object with ``await hands.do(execution)``."""


class _TakenJump(NamedTuple):
    """A jump that has been taken."""

    jump: Jump
    source: str
    """Path of the node from which the jump starts."""
    is_logged: bool = False


class Walker:
    """Walks one graph."""

    def __init__(self, steps: StepRunner, graph: Graph, hands: MakeHands) -> None:
        self._steps = steps
        self._graph = graph
        self._hands = hands(steps, self._handle)
        self._do: Callable[[Execution], Awaitable[Any]] = getattr(self._hands, "do", self._execute)
        self._values: Any = None
        self._loops = LoopCounters(graph.max_loops)
        self._background: dict[str, tuple[str, Running]] = {}
        """Background nodes not yet awaited, by id: path and task."""
        self._awaited: list[Running] = []
        self._ended_at: dict[str, int] = {}
        """Sequence number of each node's most recent end event, by path."""

    async def walk(self, values: Scope | None, position: int = 0) -> None:
        """Run the nodes from this position on. ``values``: the scope of their templates, if any."""
        nodes, early = self._graph.nodes, set[int]()
        self._values = values
        try:
            while position < len(nodes):
                at, taken_jump = await self._next_in(nodes, position, early, "", self._values)
                position = position + 1 if taken_jump is None else self._go(taken_jump, at)
                if taken_jump is not None:
                    await self._steps.give_turn()  # jumps alone could loop without yielding
                    early = {index for index in early if index < position}
            await self._wait_for(dict(self._background.values()), Await())
        except Suspended:  # wait, or the others' results would be lost
            await asyncio.gather(*self._left, return_exceptions=True)
            raise
        finally:
            await self._steps.side_by_side.cancel([*self._left, *self._awaited], "")
            self._hands = self._do = None  # type: ignore[assignment]  # both refer to this walker

    @property
    def _left(self) -> list[Running]:
        return [task for _, task in self._background.values()]

    # Order of the nodes

    async def _branch(self, nodes: Sequence[Node], parent: str, values: Scope) -> _TakenJump | None:
        early = set[int]()
        for position in range(len(nodes)):
            _, taken_jump = await self._next_in(nodes, position, early, parent, values)
            if taken_jump is not None:
                return taken_jump
        return None

    async def _next_in(
        self, nodes: Sequence[Node], place: int, early: set[int], parent: str, values: Scope
    ) -> tuple[int, _TakenJump | None]:
        """Run the node at this place unless it ran early; first run the later nodes that it reads. Returns the place reached,
        and a jump if one was taken.
        """
        count = nodes[place].early
        for index in (*range(place + 1, place + 1 + count), place) if count else (place,):
            if index in early:
                continue
            if index != place:
                early.add(index)
            taken_jump = await self._settle(nodes[index], parent, values)
            if taken_jump is not None:
                return index, taken_jump
        return place, None

    async def _settle(self, node: Node, parent: str, values: Scope) -> _TakenJump | None:
        """Run a node, or start it in the background; return a jump if execution does not continue with the following node."""
        if self._background:
            await self._wait_until_ended((*node.after, node.id))  # a jump may reach a node that still runs
        path = f"{parent}/{node.id}" if parent else node.path
        parent = parent or node.path.rpartition("/")[0]  # tasks may be in blocks that are not nodes
        step_place = Place(path, parent, values)
        execution = Execution(node, step_place)
        if node.when is not None and not self._holds(execution):
            return None
        if node.is_beside:
            running = asyncio.ensure_future(self._do(execution))
            self._background[node.id] = step_place.path, running
            return None
        output = await self._do(execution)
        if execution.is_last:
            return _TakenJump(Jump(to=END, place=len(self._graph.nodes), is_logged=False), step_place.path)
        if execution.has_failed:
            return None if node.rescue is None else _TakenJump(node.rescue, step_place.path)
        if isinstance(node.does, Decide):
            word = "true" if output else "false"
            self._steps.record(w.BranchTaken, step_place.path, to=word, reason=node.does.condition)
            taken_jump = await self._branch(node.does.branches[word], parent, values)
            if taken_jump is not None:
                return taken_jump._replace(source=step_place.path)
        return self._way_on(node, step_place) if node.jumps else None

    async def _wait_until_ended(self, names: Sequence[str]) -> None:
        running = [self._background[name][1] for name in names if name in self._background]
        if running:
            await asyncio.wait(running)
        for task in running:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _holds(self, execution: Execution) -> bool:
        """Evaluate the ``when`` of a node, and log the node as skipped if it is false."""
        path, when = execution.place.path, execution.node.when
        if when is None or self._steps.journal.is_next(w.StepStarted, path):
            return True
        if self._steps.journal.take(w.StepSkipped, path) is not None:
            return False
        try:
            holds: bool = execution.place.scope.holds(when)
        except ExpressionError as error:
            execution.problem = error  # the node begins, and fails with this error
            return True
        if not holds:
            self._steps.skip(path, when)
        return holds

    def _way_on(self, node: Node, place: Place) -> _TakenJump | None:
        """Return the jump taken after a node, preferring the logged one."""
        if len(node.jumps) == 1:
            return _TakenJump(node.jumps[0], place.path)
        if (logged := self._steps.journal.take(w.BranchTaken, place.path)) is not None:
            return _TakenJump(next(jump for jump in node.jumps if jump.to == logged.to), place.path, is_logged=True)
        for jump in node.jumps:
            try:
                if jump.when is None or place.scope.holds(jump.when):
                    return _TakenJump(jump, place.path)
            except ExpressionError as error:
                raise StepFailed(f"step {place.path}: goto: {error.what}", error.advice) from error
        return None

    def _go(self, taken_jump: _TakenJump, at: int) -> int:
        """Log a jump from a position in the list; return its target position."""
        jump, source = taken_jump.jump, taken_jump.source
        count = self._loops.go_back(at, jump.place, source, jump.to) if jump.place <= at else 0
        if jump.is_logged and not taken_jump.is_logged:
            self._steps.record(w.BranchTaken, source, to=jump.to, reason=jump.reason, count=count)
        return jump.place

    # One node

    async def _execute(self, execution: Execution) -> Any:
        """Run a node, with all its attempts and its failure handler, and return the result."""
        node, step_place = execution.node, execution.place
        if not node.kind:
            return None
        work, described = self._work(execution)
        result = None
        try:
            result = await self._steps.attempts(node, step_place, partial(self._attempt, execution, work), **described)
        except FailedStep as error:
            execution.has_failed = True
            await self._fail(execution, error)
        except asyncio.CancelledError:
            self._steps.cancel(step_place.path)  # also between two attempts
            raise
        if isinstance(node.does, Await):  # its tasks are awaited: do not count them again at the end of the run
            for name in self._names(node.does):
                self._awaited.append(self._background.pop(name)[1])
        return result

    def _work(self, execution: Execution) -> tuple[Work, Mapping[str, Any]]:
        """Return the work of a node and its fields for the log."""
        does = execution.node.does
        if isinstance(does, Await):
            return partial(self._await, does), {}
        if isinstance(does, Each):
            return partial(self._each, execution.node, does), {"agent": self._hands.label(does.node)}
        if isinstance(does, Together):
            return partial(self._together, does), {"inputs": {"order": does.names}}
        if isinstance(does, Decide):
            return partial(_decide, does), {}
        hands: Hands = self._hands
        return hands.begin(execution)

    async def _attempt(self, execution: Execution, work: Work, attempt: Attempt) -> Any:
        node = execution.node
        if execution.problem is not None:
            if isinstance(node.does, Await):  # a failing Await still awaits its tasks, whatever the failure
                await work(attempt)
            raise execution.problem
        result = await work(attempt)
        if node.post:
            attempt.sets = attempt.place.scope.after(node.post, result)
        if execution.aborts_with:
            raise StepEndedBadly(StepFailure(execution.aborts_with, ABORTED, is_final=True))
        return result

    async def _fail(self, execution: Execution, error: FailedStep) -> None:
        """Apply a node's failure settings; raise an error unless the run continues."""
        node = execution.node
        if node.rescue is not None:
            return
        if error.failure.words & ENDING:
            raise Aborted(error.failure) from error
        await self._handle(execution, node.id, error.failure.text)
        if execution.handler_failure is not None:
            raise execution.handler_failure from error
        if node.abort:
            raise Aborted(error.failure) from error
        if node.handler is None:
            raise error

    async def _handle(self, execution: Execution, failed: str, error: str) -> None:
        """Run the failure handler of a node, once per execution. ``failed``: name of the failed part."""
        handler, around = execution.node.handler, execution.place
        if handler is None or execution.is_handled:
            return
        execution.is_handled = True
        path = f"{around.path}{HANDLER}"
        values = around.scope.with_names({"step": {"name": failed}, "error": error})
        handling = Execution(handler, Place(path, around.parent, values))
        work, described = self._hands.begin(handling)
        try:
            if handling.problem is not None:
                raise handling.problem
            await self._steps.attempts(handler, handling.place, partial(self._attempt, handling, work), **described)
        except (FailedStep, ExpressionError) as trouble:
            if not execution.node.abort:  # else the first failure is more informative
                why = trouble.failure.text if isinstance(trouble, FailedStep) else trouble.what
                execution.handler_failure = StepFailed(f"step {path}: {why}", trouble.advice)
                raise execution.handler_failure from trouble

    def note_end(self, event: w.StepFinished) -> None:
        """Apply the variables set by a finished node, whether its end is new or logged; this also means that its handler has
        finished.
        """
        self._ended_at[event.step] = event.seq
        if event.sets:
            self._values.variables.update(event.sets)
        if event.status == "completed" and self._steps.journal.left:
            handler = f"{event.step}{HANDLER}"
            self._steps.count_begun(handler, self._steps.journal.pass_over_step(handler, event.seq))

    # Parallel nodes

    async def _together(self, does: Together, attempt: Attempt) -> None:
        path, values = attempt.place.path, attempt.place.scope
        await self._steps.side_by_side.all_or_none(
            lambda node: self._settle(node, path, self._in_block(node, path, values)), does.nodes, does.most
        )

    def _in_block(self, node: Node, block: str, values: Any) -> Scope:
        """Return the scope of a node in a block. If the block's nodes run in sequence, they can also read one another."""
        decides = isinstance(node.does, Decide)
        scope: Scope = values.in_block(block, node.does.names, self._steps.log.run) if decides else values
        return scope

    async def _each(self, node: Node, does: Each, attempt: Attempt) -> Any:
        path, values = attempt.place.path, attempt.place.scope
        scopes = [values.with_item(does.item_name, item, index) for index, item in enumerate(values.items(does.over, node.id))]
        executions = [Execution(does.node, Place(f"{path}/{index}", path, scope)) for index, scope in enumerate(scopes)]
        held = [execution for execution in executions if self._holds(execution)]
        if does.wait is None:
            return await self._steps.side_by_side.all_or_none(self._execute, held, does.most)
        tasks = start_all(self._execute, held, does.most, does.wait.mode)
        return await self._wait_for(dict(zip((execution.place.path for execution in held), tasks, strict=True)), does.wait)

    async def _await(self, wait: Await, attempt: Attempt) -> Any:
        return await self._wait_for(dict(self._background[name] for name in self._names(wait)), wait)

    def _names(self, wait: Await) -> list[str]:
        """Return the background nodes to wait for."""
        return [name for name in wait.on or tuple(self._background) if name in self._background]

    async def _wait_for(self, running: Mapping[str, Running], wait: Await) -> Any:
        """Return the merged results of nodes; with ``first``, at most one result, or none if that node failed."""
        await self._steps.side_by_side.wait_for(running.values(), wait.mode)
        ended = [path for path, task in running.items() if has_ended(task)]
        by_age = sorted(ended, key=lambda path: self._ended_at.get(path, -1))
        if wait.mode == "first":
            ended = by_age = by_age[:1]
        results = {path: running[path].result() for path in ended if running[path].exception() is None}
        if wait.merge == "replace":
            return results.get(by_age[-1]) if by_age else None
        return [results[path] for path in ended if path in results]


async def _decide(does: Decide, attempt: Attempt) -> bool:
    holds: bool = attempt.place.scope.holds(does.condition)
    return holds


class LoopLimitReached(WorkflowError):
    """Raised for a step that would run more often than is allowed within one loop."""


class LoopCounters:
    """Counts the loops of one run, by backward jump.

    A step runs one more time than its backward jump is taken. A new pass of an outer loop resets the counts of inner loops.
    """

    def __init__(self, limit: int) -> None:
        """``limit``: maximum number of times a step runs within one loop."""
        self._limit = limit
        self._taken: dict[tuple[int, int, str], int] = {}
        """Jumps taken, by the positions of the two steps in the list and the id of the jumping step."""

    def go_back(self, source: int, target: int, source_id: str, target_id: str) -> int:
        """Count a backward jump between two positions in the list; return its count in this loop.

        Raises `LoopLimitReached` before a step runs too often.
        """
        within = [key for key in self._taken if target <= key[1] and key[0] <= source and key[:2] != (source, target)]
        for inner in within:
            del self._taken[inner]
        key = (source, target, source_id)
        count = self._taken.get(key, 0) + 1
        if count + 1 > self._limit:
            problem = f"workflow: max loop iterations exceeded (step: {target_id}, limit: {self._limit})"
            raise LoopLimitReached(problem, "If the limit is too low, set max_loop_iterations of the workflow")
        self._taken[key] = count
        return count
