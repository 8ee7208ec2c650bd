"""Recovery of a run whose process died."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from agentnb.advice import ListRuns
from agentnb.agent.agent import Agent
from agentnb.agent.from_log import agent_of, is_trusted, logged_model
from agentnb.chat.logged_context import context_again
from agentnb.chat.plans.plans_extension import plans_again
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError
from agentnb.guidance import GuidanceSet
from agentnb.models.model import Model
from agentnb.models.registry import can_be_made
from agentnb.policies.gates import Gate
from agentnb.policies.run_limits import OF_FILE
from agentnb.runtime.budget import OWN
from agentnb.runtime.host.host import host_here
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import ResumeKeywords, RunOptions, options_of
from agentnb.runtime.runs.gate_names import check_gates
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.session.choice import needs_model
from agentnb.session.default_store import default_store
from agentnb.store.store import Store
from agentnb.workflow.resumed_runs import rerun_of
from agentnb.workflow.tasks.action_table import Action
from agentnb.workflow.workflow import Workflow


async def recover(
    run: Run | str | Path,
    *,
    tools: Iterable[Any] = (),
    gates: Iterable[Gate] = (),
    model: str | Model | None = None,
    agent: Agent | Orchestration | None = None,
    agents: Mapping[str, Agent] | None = None,
    actions: Mapping[str, Action] | None = None,
    store: Store | None = None,
    options: RunOptions | None = None,
    **keywords: Unpack[ResumeKeywords],
) -> Run:
    """Resume an interrupted or suspended run, append to its log, and return the complete run at its end.

    ``run``: a loaded run, its id, or the path of its log. ``tools`` and ``gates``: its original functions; ``agents``: a
    workflow's agents from Python, by name; ``actions``: the functions called by its tasks; ``model``: its model, if it cannot
    be created from its name. Alternatively, ``agent``: the agent with which to resume it, including its gates, regardless of
    the log, or the `Orchestration` for a run of another kind. ``store``: the store of its log, by default `.agentnb/runs`;
    ``work_dir``: the working directory of its tools, by default the current folder. ``approve`` and ``answer`` decide and
    answer on your behalf, as for `Agent.run`, and a string for ``approve`` replaces its mode; ``answers``: answers to the open
    questions of its gates, steps and nested runs, by their ids in ``run.waiting``; ``suspend``: whether to suspend it again
    when a question needs an answer. ``trust_log``: True to accept approvals, answers and settings of a log that your agentnb
    did not write (`RunOptions`). ``allow_urls``: addresses for models named by its log, such as
    ``https://models.example.org&key=MY_KEY``, in addition to the provider's own server and this machine. Finished tool calls
    are not repeated; an interrupted call is reported to the model as such, unless its tool is ``repeatable``. Raises
    `StoreError` if the log is missing or still being written, `SettingsError` if the run has ended, if its log is from
    elsewhere and ``trust_log`` is not given, or if a tool, a gate, an agent or the model is missing.
    """
    _check_agent(agent)
    options = options_of(options, keywords, ResumeKeywords, "recover(run")
    options = replace(options, can_ask=host_here().can_ask if options.can_ask is None else options.can_ask)
    parts: Any = {"tools": tools, "gates": gates, "model": model, "agents": agents, "actions": actions}
    live = begin_recovery(run, options, agent=agent, store=store, **parts)
    try:
        return await live
    except asyncio.CancelledError:
        live.stop()
        raise


def begin_recovery(
    run: Run | str | Path,
    options: RunOptions,
    *,
    agent: Agent | Orchestration | None = None,
    store: Store | None = None,
    **parts: Any,
) -> LiveRun:
    """Resume an interrupted or suspended run in the background, and immediately return a handle to it; see `recover`.

    The store of its log is used instead of the one in the options. ``parts``: tools, gates, model, agents and
    actions.
    """
    run_store, run_id = place_of(run, store)
    writer, logged_run = run_store.reopen(run_id)
    try:
        chosen = agent or _recreate(logged_run, **parts)
        rerun_of(logged_run)  # raises before anything is logged
        return chosen.resume(logged_run, writer, replace(options, store=run_store))
    except BaseException:
        writer.close()
        raise


def _recreate(run: Run, *, agents: Any = None, actions: Any = None, **parts: Any) -> Agent | Orchestration:
    """Recreate the agent or workflow of a run from its log. ``parts``: tools, gates and model, as for `recover`."""
    if is_workflow(run):
        return workflow_again(run, agents=agents, actions=actions, **parts)
    if extensions := (*context_again(run), *plans_again(run)):
        parts["extensions"] = extensions
    return agent_of(run, **parts)


def is_workflow(run: Run) -> bool:
    """True if the run belongs to a workflow from YAML; the log of such a run contains the YAML."""
    return "workflow" in run.settings


def workflow_again(
    run: Run,
    *,
    tools: Iterable[Any] = (),
    gates: Iterable[Gate] = (),
    model: str | Model | None = None,
    agents: Mapping[str, Agent] | None = None,
    actions: Mapping[str, Action] | None = None,
    guidance: GuidanceSet | None = None,
) -> Orchestration:
    """Recreate the workflow of a run, with the model, budget and inputs from its log, in order to resume it.

    ``tools``, ``gates``, ``agents`` and ``actions``: the original ones from Python; ``model``: a replacement; ``guidance``: the
    guidance set of its agents, if custom. Raises `SettingsError` if a gate is missing, or if the workflow's model was a Python
    object and is not passed again.
    """
    all_gates = tuple(gates)
    check_gates(run, all_gates)
    workflow = Workflow.of_run(run, agents=agents, tools=tools)
    if scripted := run.settings.get("replies"):
        problem = f"Run {run.id} used scripted replies for {', '.join(scripted)}"
        example = "Workflow.of_run(run, tools=...).orchestration(replies={...})"
        raise SettingsError(problem, f"Pass them again: recover(run, agent={example})")
    logged = run.settings.get("model")
    if model is None and isinstance(logged, str):
        if can_be_made(logged):
            model = logged_model(run, logged)
        elif needs_model(workflow):
            problem = f"Run {run.id} used {logged}, a Python object"
            raise SettingsError(problem, "Pass it again: -m VARIABLE, recover(run, model=...)")
    of_file = run.settings.get(OF_FILE) or ()  # set again by the file's text
    of_agents = {**(run.settings.get("agent_settings") or {}), **({"guidance": guidance} if guidance else {})}
    if not is_trusted(run):
        of_agents.pop("unpriced", None)  # which would loosen the person's budget
    return workflow.orchestration(
        model=model,
        inputs=run.settings.get("inputs"),
        **{name: run.settings[name] for name in (OWN, "max_seconds") if name in run.settings and name not in of_file},
        agent_settings={**of_agents, **({"gates": all_gates} if all_gates else {})},
        actions=actions,
        checks_files=False,
    )


def _check_agent(agent: object) -> None:
    if agent is not None and not isinstance(agent, Agent | Orchestration):
        raise SettingsError(f"agent must be an Agent, not {agent!r}", "Use agent=Agent(...), or omit it")


def place_of(run: Run | str | Path, store: Store | None = None) -> tuple[Store, str]:
    """Return the store of a run's log, and the run's id or a part of it. ``run``: as for `recover`."""
    if not isinstance(run, Run | str | Path):
        raise SettingsError(f"recover() needs a run, got {type(run).__name__}", "Pass a run, its id, or the path of its log")
    if isinstance(run, Run):
        run_store = store or default_store()[0]
        if not run_store.has(run.id):
            where = "Name its folder: recover(run, store=Store(FOLDER)). A run that was started without a store is not kept"
            raise StoreError(f"Run {run.id} is not in {run_store.shown_folder}", where)
        return run_store, run.id
    path = Path(run).expanduser()
    if store is None and (path.suffix == ".jsonl" or path.exists()):
        if not path.exists():  # otherwise an id with this prefix would match
            raise StoreError(f"There is no {path}", ListRuns(rest=" lists the runs"))
        return Store(path.parent), path.stem
    return store or default_store()[0], str(run)
