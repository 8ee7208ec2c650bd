"""Going on with a run whose process died."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.limits import AMOUNTS, COUNTS
from agentnb.context.history import as_sent_then
from agentnb.core.log import Watcher
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL
from agentnb.errors import SettingsError, StoreError, UnknownTool
from agentnb.guidance import BUILT_IN
from agentnb.models.model import Model
from agentnb.policies import NAMED, PolicySet
from agentnb.policies.named import policy_as_logged
from agentnb.session.choice import can_be_made
from agentnb.session.places import default_store
from agentnb.tools.function import as_tool
from agentnb.traces.store import Store

NO_POLICY_YET, NO_GUIDANCE_YET = {"name": "minimal"}, {"set": "off"}
"""What comes nearest to runs of the first versions, which had neither."""


async def recover(
    run: Run | str | Path,
    *,
    tools: Iterable[Any] = (),
    model: str | Model | None = None,
    agent: Agent | None = None,
    store: Store | None = None,
    watch: Watcher | None = None,
    work_dir: str | Path | None = None,
) -> Run:
    """Go on with a run whose process died, where it was cut off, and write its log on; returns the whole run when it has ended.

    ``run``: one that was loaded, its id, or the path of its log. ``tools``: the functions it had; ``model``: where that
    cannot be made from its name. Or ``agent``: the agent to go on with, whatever the run says. ``store``: where its log is, by
    default `.agentnb/runs`; ``work_dir``: where its tools work, by default the current folder. No tool call that has ended is
    made again; one that was cut off is told to the model as interrupted, unless its tool is ``repeatable``. Raises `StoreError`
    if the log is not there or still being written, `SettingsError` if the run has ended, or if a tool or the model is missing.
    """
    if not isinstance(run, Run | str | Path):
        raise SettingsError(f"{run!r} is no run", "Give a run, its id, or the path of its log")
    if agent is not None and not isinstance(agent, Agent):
        raise SettingsError(f"agent={agent!r} is no Agent", "Write agent=Agent(...), or leave it out")
    place, run_id = _place_of(run, store)
    writer, found = place.reopen(run_id)
    try:
        chosen = agent or agent_of(found, tools=tools, model=model)
        live = chosen.resume(found, writer, watch=watch, work_dir=work_dir, can_ask=False)
    except BaseException:
        writer.close()
        raise
    try:
        return await live
    except asyncio.CancelledError:
        live.stop()
        raise


def _place_of(run: Run | str | Path, store: Store | None) -> tuple[Store, str]:
    if isinstance(run, Run):
        return store or default_store()[0], run.id
    path = Path(run).expanduser()
    if store is None and (path.suffix == ".jsonl" or path.exists()):
        if not path.exists():  # else one whose id begins so would be taken for it
            raise StoreError(f"There is no {path}", "%agent history lists the runs")
        return Store(path.parent), path.stem
    return store or default_store()[0], str(run)


def agent_of(run: Run, *, tools: Iterable[Any] = (), model: str | Model | None = None, **instead: Any) -> Agent:
    """An agent with the settings of this run; ``instead``: settings that it is to have instead of the run's.

    Raises `UnknownTool` if a tool of the run is missing, and `SettingsError` if its model, policy or guidance cannot be made
    from the log.
    """
    given = tuple(tools)
    _check_tools(run, given)
    if model is None:
        if not can_be_made(run.model):
            what = f"Run {run.id} was with {run.model}, which was an object in Python"
            raise SettingsError(what, "Give it again: -m VARIABLE, recover(run, model=...)")
        model = run.model
    said = run.settings
    limits = {name: said[name] for name in (*COUNTS, *AMOUNTS, "on_limit", "max_rounds", "unpriced") if name in said}
    found: dict[str, Any] = {
        "todos": bool(said.get("todos", any(tool.name == TODO_TOOL for tool in run.tools))),
        "history": as_sent_then(said.get("history")),
        "policy": instead["policy"] if "policy" in instead else _policy(run),
        "guidance": instead["guidance"] if "guidance" in instead else _guidance(run),
        **limits,
        **instead,
    }
    return Agent(model, tools=given, name=run.agent, **found)


def names_of_tools(run: Run) -> list[str]:
    """The tools that a run was given."""
    return [tool.name for tool in run.tools if tool.name != TODO_TOOL]


def missing_tools(run: Run, names: Container[str]) -> list[str]:
    """Those that are not among these."""
    return [name for name in names_of_tools(run) if name not in names]


def _check_tools(run: Run, given: tuple[Any, ...]) -> None:
    missing = missing_tools(run, {as_tool(value).spec.name for value in given})
    if missing:
        raise UnknownTool(
            f"Run {run.id} had the tools {', '.join(missing)}, which are not given",
            f"Define them, then name them: -t {' '.join(missing)}, recover(run, tools=[{', '.join(missing)}])",
        )


def _policy(run: Run) -> PolicySet:
    said = run.settings.get("policy", NO_POLICY_YET)
    if said.get("name") not in NAMED:
        raise SettingsError(
            f"Run {run.id} had a policy of its own, {said.get('name')}", "Give it: recover(run, agent=Agent(...))"
        )
    return policy_as_logged(said)


def _guidance(run: Run) -> str:
    name = run.settings.get("guidance", NO_GUIDANCE_YET).get("set")
    if name not in BUILT_IN:
        what = f"Run {run.id} had the guidance set {name}, which is not here"
        raise SettingsError(what, f"Write it again: %%guidance {name}. In Python: recover(run, agent=Agent(...))")
    return str(name)
