"""A workflow: read from YAML, checked, and run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.settings import name_of_gate
from agentnb.core import work_events as w
from agentnb.core.log import RunStore, Watcher
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, WorkflowError, near
from agentnb.models.model import Model
from agentnb.runtime.approval import AnswerQuestion
from agentnb.runtime.elicitation import Approve, Elicitation
from agentnb.runtime.foreground import Foreground
from agentnb.runtime.host import current_host
from agentnb.runtime.lifecycle import Lifecycle
from agentnb.runtime.live import LiveRun
from agentnb.runtime.orchestration import Orchestration
from agentnb.runtime.run_options import RunOptions
from agentnb.workflow.agents import Replies, WorkflowAgents
from agentnb.workflow.deferral import deferred
from agentnb.workflow.engine import WorkflowEngine
from agentnb.workflow.graph import graph_of
from agentnb.workflow.logged import keep_workflow
from agentnb.workflow.mermaid import mermaid
from agentnb.workflow.node_states import node_states
from agentnb.workflow.perform import performers
from agentnb.workflow.problems import Problem
from agentnb.workflow.reading import read_workflow
from agentnb.workflow.spec import Step, WorkflowSpec, WorkflowStep
from agentnb.workflow.step_tree import with_branches

KEPT = (w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow that can be run any number of times, also at once: it has no state.

    ``spec`` is what was declared; ``agents`` and ``tools`` are those of Python that it was read with.
    """

    spec: WorkflowSpec
    agents: Mapping[str, Agent] | None = None
    tools: tuple[Any, ...] = ()

    @classmethod
    def from_yaml(
        cls,
        text_or_path: str | Path,
        *,
        strict: bool = False,
        agents: Mapping[str, Agent] | None = None,
        tools: Iterable[Any] = (),
    ) -> Workflow:
        """Read a workflow from YAML, or from a file of it.

        ``agents``: agents of Python by name, beside those of the file or instead of them; ``tools``: functions that its agents
        and tool steps name; ``strict``: warnings are problems too. Raises `WorkflowProblems` with all that is wrong, each with
        its line.
        """
        given, path = tuple(tools), _path(text_or_path)
        text = str(text_or_path) if path is None else path.read_text(encoding="utf-8")
        spec = read_workflow(text, "" if path is None else str(path), strict=strict, agents=tuple(agents or ()))
        return cls(spec, agents, given)

    @classmethod
    def of_run(cls, run: Run, *, agents: Mapping[str, Agent] | None = None, tools: Iterable[Any] = ()) -> Workflow:
        """Return the workflow of a run, from its log. ``agents`` and ``tools`` are those that it was given in Python.

        Raises `SettingsError` for a run of another kind.
        """
        logged = run.settings.get("workflow")
        if not isinstance(logged, dict) or not isinstance(logged.get("text"), str):
            raise SettingsError(f"Run {run.id} did not run a workflow from YAML", "%agent history lists runs")
        spec = read_workflow(logged["text"], str(logged.get("source") or ""), agents=tuple(agents or ()))
        return cls(spec, agents, tuple(tools))

    def mermaid(self, run: Run | None = None) -> str:
        """Return it as a Mermaid flowchart; with a run of it, coloured by how its steps stand, and with its loops counted."""
        return mermaid(self.spec, None if run is None else node_states(graph_of(self.spec), run))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that its steps call, and of those that its agents have; each once."""
        of_agents = (name for one in self.spec.agents.values() for name in one.tools)
        return tuple(dict.fromkeys([*_tool_names(self.spec.steps), *of_agents]))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is probably not meant."""
        return self.spec.warnings

    async def run(
        self,
        prompt: str = "",
        options: RunOptions | None = None,
        *,
        agents: Mapping[str, Agent] | None = None,
        tools: Iterable[Any] = (),
        model: str | Model | None = None,
        replies: Replies | None = None,
        inputs: Mapping[str, Any] | None = None,
        rerun_from: str | None = None,
        of: Run | None = None,
        store: RunStore | None = None,
        watch: Watcher | None = None,
        approve: Approve | None = None,
        answer: AnswerQuestion | None = None,
        suspend: bool = False,
        show: bool = True,
    ) -> Run:
        """Run it to its end, on the running event loop; plain tools run in threads.

        ``model``: of agents that name none; ``replies``: scripted replies by the path of a step or the name of an agent,
        instead of models; ``inputs``: what its templates read as ``$inputs.name``. ``rerun_from`` and ``of``: begin at the step
        with this id, with what the steps before it gave in that run. ``suspend``: where the person is asked and nobody is
        here, end as ``waiting_on_user``, to be resumed with the answer (`recover`). The other keywords are as for `Agent.run`.
        Raises `WorkflowError` if it fails; ``error.run`` is the run, with what its steps gave until then.
        """
        what = self.orchestration(
            agents=agents, tools=tools, model=model, replies=replies, inputs=inputs, rerun_from=rerun_from, of=of
        )
        given: dict[str, Any] = {"store": store, "watch": watch, "approve": approve, "answer": answer}
        given = {name: value for name, value in given.items() if value is not None}
        options = replace(options or RunOptions(show=show, suspend=suspend), **given)
        return checked(await what.run(prompt, options))

    def start(self, prompt: str = "", options: RunOptions | None = None, **settings: Any) -> LiveRun:
        """Start a run in the background and return a handle on it at once; ``settings`` are those of `orchestration`."""
        return self.orchestration(**settings).start(prompt, options or RunOptions(can_ask=True))

    def run_sync(
        self,
        prompt: str = "",
        *,
        store: RunStore | None = None,
        watch: Watcher | None = None,
        approve: Approve | None = None,
        answer: AnswerQuestion | None = None,
        show: bool = True,
        **settings: Any,
    ) -> Run:
        """Like `run`, for scripts and for code that cannot await, even inside a running event loop.

        The calling thread waits and meanwhile runs the plain tools. ``settings`` are those of `orchestration`.
        """
        foreground = Foreground()
        options = RunOptions(
            store=store,
            watch=watch,
            foreground=foreground,
            can_ask=current_host.get().can_ask,
            approve=approve,
            answer=answer,
            show=show,
        )
        with foreground.own_interrupts():
            return checked(self.start(prompt, options, **settings).wait_in_foreground())

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
        budget: float | None = None,
        agent_settings: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Orchestration:
        """Return the runs of it with these settings: what can be started, nested in another run, limited and resumed.

        ``budget``: in US dollars, instead of that of the file; ``agent_settings``: of all agents that the file declares, such
        as ``gates``; ``settings``: plain data for the log. Raises `SettingsError` for what cannot work.
        """
        known = {**(self.agents or {}), **(agents or {})}
        made = WorkflowAgents(
            self.spec.agents, known, [*self.tools, *tools], model=model, replies=replies, settings=agent_settings
        )
        for step in _tool_names(self.spec.steps):
            made.tool(step)
        values, waits = self._inputs(inputs or {}), deferred(self.spec.steps)
        earlier = () if rerun_from is None else self._earlier(rerun_from, of)

        def opened(step: WorkflowStep, given: Mapping[str, Any]) -> Orchestration:
            path = Path(self.spec.source or ".").parent / step.file
            nested = Workflow.from_yaml(path, agents=known, tools=[*self.tools, *tools])
            return nested.orchestration(model=model, replies=replies, inputs=given, agent_settings=agent_settings)

        def make(lifecycle: Lifecycle, elicitation: Elicitation) -> WorkflowEngine:
            return WorkflowEngine(
                lifecycle, elicitation, self.spec, performers(made, opened), values, waits, earlier, rerun_from
            )

        name = Path(self.spec.source).stem if self.spec.source else "workflow"
        keep_workflow(self.spec)
        logged = {"workflow": {"text": self.spec.text, "source": self.spec.source}, "inputs": values, **(settings or {})}
        logged |= _needed_again(model, agent_settings)
        limits = {**self.spec.limits, **({} if budget is None else {"budget": budget})}
        return Orchestration(make=make, name=name, settings=logged, **limits)

    def _inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        for name in given:
            if name not in self.spec.inputs:
                known = near(name, self.spec.inputs) or "It declares none: add inputs: to it"
                raise SettingsError(f"The workflow has no input {name}", known)
        return {**self.spec.inputs, **given}

    def _earlier(self, first: str, of: Run | None) -> tuple[w.StepStarted | Any, ...]:
        """Return the events of a run that say what the steps before this one gave."""
        ids = [step.id for step in self.spec.steps]
        if first not in ids:
            raise SettingsError(f"There is no step {first!r} in the top-level list", near(first, ids))
        if of is None:
            raise SettingsError(f"rerun_from={first!r} needs the run with the earlier outputs", "Give it: of=run")
        before = self.spec.steps[: ids.index(first)]
        missing = [step.id for step in before if step.kind not in ("goto", "condition") and step.id not in of.steps]
        if missing:
            raise SettingsError(f"Run {of.id} has no output of {missing[0]}", f"Begin there: rerun_from={missing[0]!r}")
        roots = {step.id for one in before for step in with_branches(one)}
        return tuple([one for one in of.events if isinstance(one, KEPT) and one.step.partition("/")[0] in roots])


def _needed_again(model: str | Model | None, agent_settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the log holds of the model and the gates, so that the run can be resumed with them."""
    gates = [name_of_gate(gate) for gate in (agent_settings or {}).get("gates") or ()]
    name = model if isinstance(model, str) else None if model is None else model.name
    return {**({} if name is None else {"model": name}), **({"gates": gates} if gates else {})}


def checked(run: Run) -> Run:
    """Return the run; raise `WorkflowError` if it failed."""
    if run.status != "failed" or run.error is None:
        return run
    raise WorkflowError(run.error.message, run.error.hint, run=run)


def _path(text_or_path: str | Path) -> Path | None:
    """Return the path of a file, if that is what was given."""
    if isinstance(text_or_path, str) and "\n" in text_or_path:
        return None
    path = Path(text_or_path).expanduser()
    if isinstance(text_or_path, str) and path.suffix not in (".yaml", ".yml"):
        return None
    if not path.is_file():
        raise SettingsError(f"There is no file {path}", "Give the path of a YAML file, or its text")
    return path


def _tool_names(steps: Iterable[Step]) -> Iterable[str]:
    for step in steps:
        if step.kind == "tool":
            yield step.tool  # type: ignore[union-attr]
        for children in ("steps", "true_", "false_"):
            yield from _tool_names(getattr(step, children, ()))
        if step.kind == "map":
            yield from _tool_names([step.step])  # type: ignore[union-attr]
