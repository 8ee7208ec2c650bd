"""Nested runs at the tool call that started them, and many runs on one line."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from asserted_sentences import Snapshot
from run_builder import START, RunBuilder
from scripted_runs import agent_of, even_failed

from agentnb import Agent, Run, ToolCall, Workflow, save_trace
from agentnb.core.log.events import Event, RunFinished
from agentnb.display.card import nested
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.many_runs import MAX_LISTED, ManyRuns
from agentnb.display.card.nested import NestedRuns
from agentnb.display.card.text import run_text
from agentnb.models import ScriptedModel
from agentnb.rerun.expect import expectations_extension
from agentnb.runtime.host.host import Beginning, Host, use_host
from agentnb.tools.tool import ToolContext


class Watching:
    """Watches a run like a card."""

    def __init__(self) -> None:
        self.card = LiveCard()
        self.changes = 0

    def __call__(self, item: Any) -> None:
        self.card.take(item)

    def nested(self, beginning: Beginning) -> Any:
        return self.card.nested.add(beginning, self.changed)

    def changed(self) -> None:
        self.changes += 1
        self.card.redraw_round()


agent = partial(agent_of, guidance="off", todos=False)


def run_with(count: int, depth: int = 1) -> tuple[Run, Watching, list[str]]:
    """Return a run whose call starts this many nested runs, each with a child if deeper; and its frames."""
    frames: list[str] = []
    watching, go = Watching(), asyncio.Event()

    async def hold() -> str:
        """Wait until it was looked at."""
        await go.wait()
        return "held"

    def level(left: int) -> Agent:
        async def deeper() -> str:
            """Begin a run."""
            return (await level(left - 1).run(f"level {left - 1}")).text

        return agent(
            ToolCall("deeper" if left else "hold", {}), f"<done> at {left}", tools=[deeper, hold], name=f"helper-{left}"
        )

    async def begin() -> str:
        """Begin runs."""
        tasks = [asyncio.ensure_future(level(depth - 1).run(f"part {n}")) for n in range(count)]
        while not watching.changes:
            await asyncio.sleep(0)
        frames.append(str(watching.card.frame()))
        go.set()
        await asyncio.gather(*tasks)
        frames.append(str(watching.card.frame()))
        return "begun"

    with use_host(Host(begun=lambda live: None)):
        run = asyncio.run(agent(ToolCall("begin", {}, id="c"), "Done.", tools=[begin]).run("go", watch=watching))
    return run, watching, frames


def test_few_nested_runs_are_listed_live_and_saved() -> None:
    run, watching, frames = run_with(2)
    assert "Done" not in frames[0] and "Done" in frames[-1]
    saved = run_html(run, nested=watching.card.nested.html)
    for html in (frames[-1], saved):
        assert html.count("agentnb-nested-summary") == 2 and "helper-0" in html and "part 1" in html
        assert "<done>" not in html and "&lt;done&gt; at 0" in html
    assert "%agent load" not in saved
    opened = watching.card.nested.html("c", {f"nested:{child.run_id}": True for child in watching.card.nested._few["c"]})
    assert opened.count(" open") == 2


def test_run_of_an_agent_tool_is_shown_in_its_call() -> None:
    frames, watching = list[str](), Watching()

    async def look() -> str:
        """Look at the card."""
        frames.append(str(watching.card.frame()))
        return "seen"

    inner = agent(ToolCall("look"), "Found it.", tools=[look], name="researcher")
    asks = ToolCall("researcher", {"prompt": "Find it."}, id="c")
    with use_host(Host(begun=lambda live: None)):
        run = asyncio.run(agent(asks, "Done.", tools=[inner]).run("go", watch=watching))
    frames.append(str(watching.card.frame()))
    saved = run_html(run, nested=watching.card.nested.html)
    for html in (*frames, saved):
        assert html.count("agentnb-nested-summary") == 1 and "Find it." in html
    assert watching.card.nested.html("c", {}).count("agentnb-nested-summary") == 1
    assert "Found it." not in frames[0] and "Found it." in saved


def test_many_nested_runs_share_one_line_and_free_their_memory() -> None:
    run, watching, frames = run_with(nested.MAX_CARDS + 1)
    saved = run_html(run, nested=watching.card.nested.html)
    assert "5 runs" in frames[-1] and "5 done" in saved and "agentnb-nested-summary" not in saved
    assert watching.card.nested._few["c"] == [] and watching.card.nested._many["c"]._live == {}


def test_nested_runs_are_shown_only_up_to_a_depth() -> None:
    _, watching, _ = run_with(1, depth=5)
    assert watching.card.nested.html("c", {}).count("agentnb-nested-summary") == nested.MAX_DEPTH


def test_runs_logged_by_a_call_are_listed_in_each_form(tmp_path: Path) -> None:
    run, _, _ = run_with(60)
    begun = run.rounds[0].records[0].nested
    assert len(begun) == 60 and {child.agent for child in begun} == {"helper-0"}
    page = save_trace(run, tmp_path / "run.html").read_text(encoding="utf-8")
    for form, command in ((run_text(run), "run "), (str(run_html(run)), "%agent load "), (page, "%agent load ")):
        assert f"{command}{begun[-1].run_id}" in form and "helper-0" in form
        assert begun[0].run_id not in form and "earlier runs" in form


def test_runs_of_inner_calls_are_listed_in_each_form(tmp_path: Path) -> None:
    frames, watching, go = list[str](), Watching(), asyncio.Event()

    async def hold() -> str:
        """Wait until it was looked at."""
        await go.wait()
        return "held"

    async def begin() -> str:
        """Begin a run."""
        began = asyncio.ensure_future(agent(ToolCall("hold"), "Ended.", tools=[hold], name="helper").run("part"))
        while not watching.changes:
            await asyncio.sleep(0)
        frames.append(str(watching.card.frame()))
        go.set()
        await began
        frames.append(str(watching.card.frame()))
        return "begun"

    async def outer(context: ToolContext) -> str:
        """Call the tool that begins a run."""
        return str((await context.call("begin")).text)

    with use_host(Host(begun=lambda live: None)):
        run = asyncio.run(agent(ToolCall("outer"), "Done.", tools=[outer, begin]).run("go", watch=watching))
    (inner,) = run.rounds[0].records[0].inner
    (begun,) = inner.nested
    assert "helper" in frames[0] and "Done" not in frames[0] and "Done" in frames[1]
    page = save_trace(run, tmp_path / "run.html").read_text(encoding="utf-8")
    for form in (str(run_html(run)), page):
        assert form.count(f"%agent load {begun.run_id}") == 1 and "helper" in form
        assert form.index('data-call="' + inner.call.id) < form.index(f"%agent load {begun.run_id}")
    calls = [line for line in run_text(run).splitlines() if "↳" in line]
    assert [line.split("(")[0] for line in calls] == ["       ↳ begin", f"         ↳ helper: run {begun.run_id}"]
    saved = run_html(run, nested=watching.card.nested.html)
    assert "agentnb-nested-summary" in saved and "%agent load" not in saved


def test_runs_of_step_tools_are_listed_in_each_form(tmp_path: Path) -> None:
    async def begin(context: ToolContext) -> str:
        """Begin a run."""
        return str((await context.start_run(agent("Ended.", name="helper"), "part")).text)

    async def outer(context: ToolContext) -> str:
        """Call the tool that begins a run."""
        return str((await context.call("begin")).text)

    text = "workflow: [{id: first, type: tool, name: begin}, {id: second, type: tool, name: outer}]\n"
    run = Workflow.from_yaml(text, tools=[begin, outer]).run_sync("Go", show=False)
    (direct,), (inner,) = run.step_calls[0].record.nested, run.step_calls[1].record.inner[0].nested
    page = save_trace(run, tmp_path / "run.html").read_text(encoding="utf-8")
    for form in (str(run_html(run)), page):
        assert form.count(f"%agent load {direct.run_id}") == form.count(f"%agent load {inner.run_id}") == 1
    assert [line.strip() for line in run_text(run).splitlines() if "↳" in line] == [
        f"↳ helper: run {direct.run_id}",
        f"↳ helper: run {inner.run_id}",
    ]


def test_call_without_nested_runs_shows_no_run_list() -> None:
    assert NestedRuns().html("c", {}) == "" and NestedRuns().changes("c") == 0


def failed_run() -> Run:
    return even_failed(lambda: agent(ValueError("broken")).run_sync("fails\nhere", show=False))


def test_many_runs_are_counted_by_state_with_time_and_cost(snapshot: Snapshot) -> None:
    done, failed, live = asyncio.run(agent("Done.").run("works")), failed_run(), Run()
    many = ManyRuns()
    for name, run in {"a": done, "b": failed, "c": live}.items():
        many.add(name, run)
    for name in "ab":
        many.note_end(name)
        many.note_end(name)  # reported twice, counted once
    assert many.text == snapshot and not many.is_over
    assert 'value="2"' in many.html() and "agentnb-many-lines" not in many.html() and "agentnb-active" in many.html()
    for event in done.events:
        live.apply(event)
    many.note_end("c")
    assert many.is_over and many.text.startswith("3 runs: 2 done, 1 failed · ")
    html = many.html()
    assert html.index("fails here") < html.index("works") and "agentnb-bad" in html


def test_long_list_of_runs_is_bounded_and_keeps_failures() -> None:
    done, failed, many = asyncio.run(agent("Done.").run("works")), failed_run(), ManyRuns()
    for n in range(MAX_LISTED + 20):
        many.add(f"d{n}", done)
        many.note_end(f"d{n}")
    many.add("f", failed)
    many.note_end("f")
    html = many.html()
    assert html.count("works") == MAX_LISTED and "fails here" in html and "20 more" in html


def test_summary_of_many_runs_has_the_worst_tone() -> None:
    many, passed = ManyRuns(), expectations_extension(["rounds == 1"])
    unchecked = asyncio.run(agent("Done.").run("works"))
    checked = asyncio.run(Agent(ScriptedModel(["Done."]), extensions=[passed]).run("works"))
    for tone, run in {"good": checked, "neutral": unchecked, "bad": failed_run()}.items():
        many.add(tone, run)
        many.note_end(tone)
        assert f"agentnb-chip agentnb-{tone}" in many.html()


def test_watcher_of_a_nested_run_ignores_streamed_deltas() -> None:
    run, watching, _ = run_with(1)
    (one,) = watching.card.nested._few["c"]
    assert watching.changes == sum(isinstance(event, Event) for event in one.run.events)
    assert isinstance(one.run.events[-1], RunFinished) and one.is_over and run.status == "completed"


def test_only_the_newest_nested_runs_keep_all_events() -> None:
    runs = NestedRuns()
    for number in range(nested.MAX_KEPT + 50):
        run = RunBuilder(run_id=f"r-{number}").round("Done.").run
        beginning = Beginning(run, run.id, "r", f"step-{number}", "helper", True, True, True)
        watcher = runs.add(beginning, lambda: None)
        assert watcher is not None
        fields = {"seq": len(run.events), "at": START, "run_id": run.id}
        run.apply(end := RunFinished(**fields, status="completed", stop_reason="natural", seconds=1.0))
        watcher(end)
    assert len(runs._kept) == nested.MAX_KEPT == sum(len(few) for few in runs._few.values())
    assert "1 run" in runs.html("step-0", {}) and "nested:" not in runs.html("step-0", {})
    assert "nested:" in runs.html(f"step-{nested.MAX_KEPT + 49}", {})
