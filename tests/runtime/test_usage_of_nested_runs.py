"""Usage of nested runs counts for the parent run: live, from its log, after a kill, and in every sum."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from scripted_runs import bare, work
from summarising import Summarising, priced

from agentnb import Agent, History, Run, RunOptions, Store, ToolCall, Workflow, load_trace, plots, recover, tables
from agentnb.core.log.events import AnyEvent, ExtraUsage, RunFinished
from agentnb.core.log.wire import encode
from agentnb.core.usage import Usage
from agentnb.display.lists.history_list import cost_words
from agentnb.models.scripted import ScriptedModel
from agentnb.rerun.expect import outcomes_of
from agentnb.runtime.budget import Budget
from agentnb.tools.tool import ToolContext

COST, TOKENS = 0.25, (100, 20)


def said(text: str = "Done.", cost: float | None = COST) -> Any:
    return priced(text, cost=cost, tokens=TOKENS)


def agent(*replies: Any, tools: tuple[Any, ...] = (), **settings: Any) -> Agent:
    return bare(Summarising(replies or [said()], [said("What was done.")]), tools, **settings)


def of_workflow(text: str, folder: Path, **agents: Agent) -> Callable[[RunOptions], Run]:
    path = folder / "outer.yaml"
    path.write_text(text)
    workflow = Workflow.from_yaml(path, agents=agents)
    return lambda options: workflow.start("Go", options).result(30)


def in_script(outer: Agent) -> Callable[[RunOptions], Run]:
    return lambda options: asyncio.run(outer.run("Go", options))


def calling(tool: Any) -> Agent:
    """Return an agent that pays for a call of this tool and for its last reply."""
    return agent(priced(ToolCall(tool.__name__), cost=COST, tokens=TOKENS), said(), tools=(tool,))


def ways(folder: Path) -> dict[str, tuple[Callable[[RunOptions], Run], int, int]]:
    """Return the ways to start nested runs, the total of model calls, and the outermost run's own."""
    (folder / "inner.yaml").write_text("workflow: [{type: agent, name: a}, {type: workflow, file: innermost.yaml}]\n")
    (folder / "innermost.yaml").write_text("workflow: [{type: agent, name: a}, {type: agent, name: a}]\n")

    async def awaited() -> str:
        """Awaits another agent."""
        return (await agent().run("inner")).text

    async def started(context: ToolContext) -> str:
        """Starts another agent."""
        return str((await context.start_run(agent(), "inner")).text)

    def plain() -> str:
        """Runs another agent, in a thread."""
        return agent().run_sync("inner").text

    async def deeper() -> str:
        """Awaits an agent that awaits another."""
        return (await calling(awaited).run("middle")).text

    async def summarises() -> str:
        """Awaits an agent that summarises its conversation."""
        rounds = [priced(ToolCall("work", {"n": n}), cost=COST, tokens=TOKENS) for n in range(3)]
        settings: dict[str, Any] = {"history": History(compact_above=5, keep_recent=2)}
        return (await agent(*rounds, said(), tools=(work,), **settings).run("long")).text

    steps = "workflow: [{type: agent, name: a}, {type: parallel, steps: [{type: agent, name: a}, {type: agent, name: a}]}]\n"
    files = "workflow: [{type: workflow, file: inner.yaml}]\n"
    made = Agent(Summarising([said()] * 20), name="a", guidance="off")
    return {
        "awaited": (in_script(calling(awaited)), 3, 2),
        "started by the context": (in_script(calling(started)), 3, 2),
        "in a thread": (in_script(calling(plain)), 3, 2),
        "two levels": (in_script(calling(deeper)), 5, 2),
        "with a summary": (in_script(calling(summarises)), 7, 2),
        "agents of a workflow": (of_workflow(steps, folder, a=made), 3, 0),
        "nested workflows": (of_workflow(files, folder, a=made), 3, 0),
    }


def sums(run: Run) -> tuple[Any, ...]:
    usage, own = run.usage, run.own_usage
    return pytest.approx(run.cost), pytest.approx(run.spent), usage.input, usage.output, run.own_cost, own.input, own.output


@pytest.mark.req("KX.2", "KX.9")
def test_run_usage_includes_its_nested_runs(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    folder = tmp_path_factory.mktemp("files")
    for name, (begin, calls, own) in ways(folder).items():
        store = Store(tmp_path_factory.mktemp("runs"))
        with subtests.test(name):
            run = begin(RunOptions(store=store, show=False))
            assert run.status == "completed"
            expected = (calls * COST, calls * COST, calls * 100, calls * 20, own * COST, own * 100, own * 20)
            assert sums(run) == expected
            runs, used = tables.runs(store), tables.usage(store)
            assert len(runs) > 1, "nested runs keep their logs beside their parent's"
            assert runs.own_cost.sum() == pytest.approx(calls * COST) == used.cost.sum()
            assert runs.own_input_tokens.sum() == calls * 100 == used.input_tokens.sum() and len(used) == calls
            for path in store.folder.glob("*.jsonl"):
                if path.stem != run.id:
                    path.unlink()
            alone = load_trace(store.path(run.id))
            assert sums(alone) == expected and alone == run
            (row,) = tables.runs(store).to_dict("records")
            assert (row["cost"], row["own_cost"]) == (pytest.approx(calls * COST), own * COST)
            used = tables.usage(store)
            assert (used.cost.sum(), used.input_tokens.sum()) == (pytest.approx(calls * COST), calls * 100)
            (listed,) = store.summaries()
            assert (cost_words(listed), listed.tokens, listed.own_cost) == (f"${calls * COST:.4f}", calls * 120, own * COST)
            held = outcomes_of(alone, [f"cost < {calls * COST - 0.1}", "input_tokens == 0", f"output_tokens == {calls * 20}"])
            assert [one.holds for one in held] == [False, False, True]


def test_unknown_price_of_a_nested_run_makes_the_sum_unknown(tmp_path: Path) -> None:
    async def ask(cost: float | None = None) -> str:
        """Awaits another agent."""
        return (await agent(said(cost=cost)).run("inner")).text

    outer = agent(ToolCall("ask", {"cost": 0.5}), ToolCall("ask"), ToolCall("ask"), said(), tools=(ask,))
    store = Store(tmp_path)
    run = asyncio.run(outer.run("Go", RunOptions(store=store)))
    assert (run.cost, run.own_cost, run.spent, run.usage.input) == (None, COST, 0.5 + COST, 400)
    assert load_trace(store.path(run.id)).cost is None
    assert {summary.id: cost_words(summary) for summary in store.summaries()}[run.id] == "no price"


def test_nested_tokens_without_a_report_are_unknown(tmp_path: Path) -> None:
    begin = of_workflow("workflow: [{type: agent, name: a}]\n", tmp_path, a=agent(priced("Done.", cost=None), name="a"))
    run = begin(RunOptions(show=False))
    assert (run.cost, run.usage, run.own_usage) == (None, Usage(), Usage(0, 0, cost=0.0))
    assert [(outcome.holds, outcome.has_value) for outcome in outcomes_of(run, ["input_tokens == 0", "cost < 1"])] == [
        (False, False)
    ] * 2


def test_usage_that_leaves_sums_unchanged_is_not_logged_again(tmp_path: Path) -> None:
    async def ask() -> str:
        """Awaits another agent."""
        return (await agent(priced(ToolCall("work"), cost=None), priced("Done.", cost=None), tools=(work,)).run("inner")).text

    run = asyncio.run(agent(*[ToolCall("ask")] * 5, "Done.", tools=(ask,)).run("Go"))
    assert [event.inside for event in run.events if isinstance(event, ExtraUsage)] == [0.0]
    assert run.cost is None


def test_rows_of_nested_runs_replace_nested_usage_rows(tmp_path: Path) -> None:
    async def awaited() -> str:
        """Awaits another agent."""
        return (await agent().run("inner")).text

    async def deeper() -> str:
        """Awaits an agent that awaits another."""
        return (await calling(awaited).run("middle")).text

    store = Store(tmp_path)
    outer = asyncio.run(calling(deeper).run("Go", RunOptions(store=store)))
    by_parent = {summary.parent_id: summary.id for summary in store.summaries()}
    middle, inner = by_parent[outer.id], by_parent[by_parent[outer.id]]
    logs = {run_id: store.path(run_id).read_bytes() for run_id in (outer.id, middle, inner)}
    cases = {"all": [], "innermost is gone": [inner], "middle is gone": [middle], "outer alone": [inner, middle]}
    for name, gone in cases.items():
        for run_id, log in logs.items():
            path = store.path(run_id)
            path.unlink(missing_ok=True)
            if run_id not in gone:
                path.write_bytes(log)
        used = tables.usage(store)
        assert (name, used.cost.sum()) == (name, pytest.approx(5 * COST))
        assert (name, set(used.nested_run.dropna())) == (name, set(gone))
    words = repr(plots.cost(load_trace(store.path(outer.id))))
    assert "2 model calls, 2 nested runs" in words and "nested: $0.75, 360 tokens" in words


def cut_after(store: Store, run: Run, count: int, nested: dict[str, bytes]) -> None:
    """Cut the log of a run after this many events, like a dying process; logs of nested runs stay whole."""
    events: list[AnyEvent] = [*run.events]
    for run_id, log in nested.items():
        store.path(run_id).write_bytes(log)
    store.path(run.id).write_bytes(b"".join(map(encode, events[:count])))


def test_a_recovered_workflow_counts_each_nested_run_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path / "runs")
    text = "workflow: [{id: one, type: agent, name: a}, {id: two, type: agent, name: a}]\n"
    made = Agent(ScriptedModel([said()] * 99), name="a", guidance="off")
    run = of_workflow(text, tmp_path, a=made)(RunOptions(store=store, show=False))
    assert (run.cost, run.usage.input) == (2 * COST, 200)
    nested = {summary.id: store.path(summary.id).read_bytes() for summary in store.summaries() if summary.parent_id}
    before = [path.stem for path in store.folder.glob("*.jsonl")]
    for count in range(1, len(run.events)):
        with subtests.test(f"cut after {count} events"):
            for path in store.folder.glob("*.jsonl"):
                path.unlink()
            cut_after(store, run, count, nested)
            began = {event.nested for event in run.events[:count] if hasattr(event, "nested") and isinstance(event.nested, str)}
            for run_id in set(nested) - began:
                store.path(run_id).unlink()
            session = Budget(name="session_budget")
            again = asyncio.run(recover(run.id, agents={"a": made}, store=store, trust_log=True))
            assert (again.status, again.cost, again.spent, again.usage.input) == ("completed", 2 * COST, 2 * COST, 200)
            assert tables.runs(store).own_cost.sum() == pytest.approx(2 * COST)
            assert session.spent == 0 and len(before) == 3


def test_interrupted_run_keeps_the_usage_of_nested_runs(tmp_path: Path) -> None:
    async def awaited() -> str:
        """Awaits another agent."""
        await agent(priced(ToolCall("work"), cost=COST, tokens=TOKENS), said(), tools=(work,)).run("inner")
        return "done"

    run = asyncio.run(calling(awaited).run("Go"))
    places = [place for place, event in enumerate(run.events) if isinstance(event, ExtraUsage)]
    assert len(places) == 2
    for calls, place in enumerate(places, start=2):
        cut = tmp_path / f"{run.id}.jsonl"
        cut.write_bytes(b"".join(map(encode, run.events[: place + 1])))
        assert (load_trace(cut).cost, load_trace(cut).usage.input) == (calls * COST, calls * 100)


def test_old_log_with_only_nested_cost_still_counts_it(tmp_path: Path) -> None:
    run = agent(said()).run_sync("Go")
    older = ExtraUsage(seq=2, at=None, run_id=run.id, inside=0.75)
    events = [replace(one, seq=seq) for seq, one in enumerate([*run.events[:2], older, *run.events[2:]])]
    path = tmp_path / f"{run.id}.jsonl"
    path.write_bytes(b"".join(encode(event) for event in events if not isinstance(event, RunFinished)))
    found = load_trace(path)
    assert (found.cost, found.own_cost, found.spent, found.usage.input) == (0.75 + COST, COST, 0.75 + COST, 100)
    assert Store(tmp_path).summary(run.id).cost == 0.75 + COST


def test_token_limit_excludes_nested_runs() -> None:
    async def awaited() -> str:
        """Awaits another agent."""
        return (await agent().run("inner")).text

    outer = agent(priced(ToolCall("awaited"), cost=COST, tokens=TOKENS), said(), tools=(awaited,), max_tokens=230)
    run = asyncio.run(outer.run("Go"))
    assert (run.status, run.usage.input, run.own_usage.input) == ("completed", 300, 200)
