"""The style sheet of the card: every rule is used, and every class has a rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import PIL.Image
import pytest
from draft_runs import answer, drafted
from drawn_workflows import BRANCH, LOOP, NESTED, ONCE_AROUND, spec_of, workflow_run
from hostile_runs import Pause, hostile_run, items, texts_of
from made_results import results_of
from planned_runs import ASKING, FINAL, HARBOURS, fetch, plan_of, planner_run
from run_builder import START, RunBuilder, begun, called, todos_of
from scripted_runs import look
from some_approvals import CASES
from some_questions import PERSON
from some_servers import server_views

import agentnb.notebook
from agentnb import Agent, Matrix, Plan, Run, compare, diff, examples, load_trace, replay
from agentnb.context.request_history import sent_requests
from agentnb.core.display_data import Table
from agentnb.core.log import events as e
from agentnb.core.log.events import Progress, TextDelta
from agentnb.core.log.work_events import StepFinished
from agentnb.core.messages import Image, Message, Text, ToolCall, ToolResult
from agentnb.core.questions import DONE, AskedQuestion, WaitingOnUser
from agentnb.core.run.approvals import approval_schema, judged_call
from agentnb.core.run.rounds import CallRecord
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.many_runs import ManyRuns, many_runs_html
from agentnb.display.card.nested import NestedRuns
from agentnb.display.card.request_view import request_view_html
from agentnb.display.card.run_page import page_html
from agentnb.display.card.workflow_card import LiveSteps
from agentnb.display.css import LIVE, NO_FORMULAS, STYLES, style_sheet
from agentnb.display.form import Form
from agentnb.display.graph.workflow_graph import graph_html
from agentnb.display.lists.browser import opened_html, rows_html, saved_frame, saved_html
from agentnb.display.lists.diff_view import diff_html
from agentnb.display.lists.history_list import history_html, run_list_html
from agentnb.display.lists.plan_view import plan_html
from agentnb.display.lists.replay_view import replay_html
from agentnb.display.lists.run_rows import row_of
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.parts.questions.draft_view import draft_html
from agentnb.display.parts.questions.question import question_html
from agentnb.display.parts.questions.schema_form import form_html
from agentnb.display.parts.tool_card import tool_card_html
from agentnb.display.texts.states import STEP_STATES
from agentnb.experiments.running.control import Progress as ExperimentProgress
from agentnb.experiments.views.comparison_view import comparison_html
from agentnb.experiments.views.progress_view import progress_html
from agentnb.experiments.views.results_view import results_html
from agentnb.models import ScriptedModel
from agentnb.rerun.expect import expectations_extension
from agentnb.runtime.host.host import Beginning
from agentnb.store.summaries import RunSummary
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.form.workflow_spec import GotoStep, ToolStep, WorkflowSpec
from agentnb.workflow.graph.node_states import NodeState

CLASS = re.compile(r"agentnb-[\w-]*[\w]")
STATIC = Path(agentnb.notebook.__file__).with_name("static")
SCRIPTS = "\n".join(path.read_text("utf-8") for path in STATIC.glob("*.js"))

TOOL = ToolCall("read", {"path": "a"}, "c1")
CODE = "```python\n@f\nclass A:\n    def f(self): return 'x', 1  # why\n```"
TABLE = "| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |"
FORMULA = "$$\\boxed{\\begin{aligned} a &= b \\end{aligned}}$$"
NO_STYLE = {"saw", "wrong", "todo-mark", "todo-not-started", "todo-blocked", "replay-head", "replay-told"}
"""Names of parts without a style of their own, for people who look for such a part in a page."""


def picture() -> bytes:
    file = BytesIO()
    PIL.Image.new("RGB", (40, 30), "red").save(file, "PNG")
    return file.getvalue()


def classes(html: str) -> set[str]:
    return {name for given in re.findall(r' class="([^"]*)"', html) for name in given.split()}


def runs() -> Iterator[str]:
    """Return runs with every part of a hostile one, in every form."""
    for end in ("failed", "completed", "limited"):
        run = hostile_run("text", end, 4)
        yield from (run_html(run, prompt=True, details=True), page_html(run).partition("<body")[2], compact_html(run))
    yield running_html(Run.from_events(hostile_run("text", rounds=4).events[:-2]), streaming="On and on")
    card = LiveCard(controls=True)
    for item in items(texts_of("text"), rounds=4):
        if not isinstance(item, Pause):
            card.take(item)
            continue
        for frame in (card.frame() or {}, card.whole()):
            yield from frame.get("slots", {}).values()
            yield from (html for round_ in frame.get("rounds", ()) for html in round_["html"].values())


def quiet_runs() -> Iterator[str]:
    """Return a successful run with a picture and many todos; nested runs; lists of runs."""
    todo, seen = called("todo_operations"), called("see", "c9")
    pictured = ToolResult("c9", "see", (Text("A map"), Image("image/png", picture())))
    built = RunBuilder(todos=todos_of(*["not-started"] * 60)).round(called("look")).round(todo)
    built.extend(*begun(2)).add(e.ModelReplied, message=Message("assistant", (seen,))).add(e.ToolStarted, call=seen)
    built.add(e.ToolFinished, result=pictured).add(e.RoundFinished, index=2, status="success")
    run = built.round("Done.").add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run
    yield run_html(run, details=True)
    one = RunSummary("r-1", START, "completed", "natural", 3, 1.5, "anthropic:big", "Sum the table", 8_400, 0.0123)
    yield history_html([one] * 200, "200 runs", lambda _: compact_html(run)) + run_list_html([one])
    few, many = NestedRuns(), ManyRuns()
    few.add(Beginning(run, "r-2", "r-1", "c1", "helper", True, True, True), lambda: None)
    many.add("r-2", run)
    many.note_end("r-2")
    yield few.html("c1", {}) + many_runs_html(many)


def pieces() -> Iterator[str]:
    """Return pieces that are rare in runs."""
    yield from (markdown_html(text) for text in (CODE, TABLE, FORMULA, "x" * 200_000))
    yield tool_card_html(CallRecord(TOOL, progress=Progress(1, 2, "half")), Form())
    yield run_html(Agent(ScriptedModel(["Done."]), extensions=[expectations_extension(["rounds == 1"])]).run_sync("Go."))
    about = judged_call(ToolCall("shell", {"command": "x" * 2_000_001}), "ask")
    yield question_html(
        AskedQuestion(question=WaitingOnUser("approval", "Well?", approval_schema(), "q1", "c1", about), round=0),
        Form(live=True),
    )
    for fields in ({"schema": PERSON}, {"schema": DONE, "url": "https://example.org"}):
        asked = WaitingOnUser("elicitation", "Well?", id="q1", asked_by="book", **fields)  # type: ignore[arg-type]
        yield question_html(AskedQuestion(question=asked, round=0), Form(live=True))
    yield from (piece for case in CASES.values() for piece in (question_html(case, Form(live=True)), form_html(case.question)))
    waiting = drafted()
    yield draft_html(waiting.questions[0], waiting, Form(live=True)) + run_html(drafted(answer("approve")))
    yield tool_card_html(CallRecord(TOOL, printed="a line\n"), Form(live=True))
    done = ToolResult("c1", "read", (Text("x" * 20_000),))
    table = Table(("a", "n"), ((0, "y", 1),), 1, 2)
    record = CallRecord(TOOL, done, inner=(CallRecord(TOOL, done),), display=table)
    yield tool_card_html(record, Form(effects={"read": ["network"]}))
    yield tool_card_html(
        CallRecord(TOOL, ToolResult("c1", "read", (Text("a picture of 40 x 30 pixels"), Image("image/png", picture())))), Form()
    )
    todos = [
        {"id": 1, "title": "A", "description": "A step", "status": "not-started"},
        {"id": 2, "title": "B", "description": "Another", "status": "not-started"},
    ]
    plan = ["First a list.", ToolCall("todo_operations", {"operation": "write", "todoList": todos})]
    yield run_html(
        Agent(ScriptedModel([plan, "I will.", "Soon.", "Later.", *["Well."] * 8]), tools=[look]).run_sync("go")
    )  # ignores guidance
    script = [ToolCall("look"), "At it.", "[WORKFLOW_COMPLETE]"]
    policy = Matrix(workflow_mode=True, workflow_drops_text=True)
    run = Agent(ScriptedModel(script), tools=[look], todos=False, policy=policy).run_sync("go")
    yield from (request_view_html(seen, whole=True) for _, seen in sent_requests(run))


def many() -> Iterator[str]:
    """Return the trace browser, live and saved, two compared runs, and replays."""
    shown = [load_trace("complex-fails"), load_trace("healthy"), hostile_run("text", "completed", 4)]
    rows = [row_of(place, run) for place, run in enumerate(shown)]
    yield rows_html(rows)
    yield saved_html(saved_frame([*rows, *rows * 10], 340, "340 runs", ""), opened_html(shown[0], "runs[0]"))
    sought = [RunBuilder().round(called("look", query)).round("Done.").run for query in ("c1", "c2")]
    yield from (diff_html(diff(a, b)) for a in (*shown, *sought) for b in (*shown, *sought))
    yield from (replay_html(replay(name, workflow_mode=True)) for name in examples.FILES)
    yield replay_html(replay(sought[0], limits={"max_rounds": 1}))


def workflows() -> Iterator[str]:
    """Return workflows with steps in every state, and their runs."""
    for text in (BRANCH, NESTED, LOOP):
        spec = spec_of(text)
        for status in STEP_STATES:
            yield graph_html(spec, {node.path: NodeState(status, 2) for node in drawing_of(spec).all_nodes})
    steps = tuple(ToolStep(id=f"t{n}", path=f"t{n}", tool="x") for n in range(100))
    yield graph_html(WorkflowSpec(steps=(*steps, GotoStep(id="g", path="g", target="end"))))
    yield plan_html(Plan.read({"intention": "Look", "steps": [{"type": "noop", "reason": "nothing to do"}]}))
    yield run_html(planner_run(HARBOURS, ASKING, FINAL))
    yield run_html(planner_run(plan_of(fetch("brest"), fetch("brest", reason="Again")), FINAL))
    yield run_html(workflow_run(LOOP, [*ONCE_AROUND, (StepFinished, {"step": "draft", "status": "failed", "error": "no"})]))
    live_steps = LiveSteps(workflow_run(LOOP, ONCE_AROUND))
    runs_nested = NestedRuns()
    beginning = Beginning(RunBuilder().run, "r", "w", "draft", "writer", True, True, True)
    watcher = runs_nested.add(beginning, bool, bool)
    assert watcher is not None
    watcher(TextDelta("As it comes"))
    yield from live_steps.pieces(Form(), {}, runs_nested).values()


def experiments() -> Iterator[str]:
    """Return views of experiments: a note, differing pairs, incomplete runs and an interval."""
    results = results_of({"a": [1, 0] * 20, "b": [0, 1, 1, None] * 10}, notes=["extended"])
    yield comparison_html(compare(results, "a", "b")) + results_html(results)
    yield progress_html(ExperimentProgress("e", 3))


def test_saved_styles_have_one_rule_per_class(subtests: pytest.Subtests) -> None:
    seen: list[str] = []
    for path in [path for path in sorted(STYLES.glob("*.css")) if path.name != LIVE]:
        with subtests.test(path.name):
            text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
            assert re.sub(r"\.agentnb-[\w-]+ \{[^{}]*\}", "", text).strip() == "", "inlined styles would always apply"
            seen += re.findall(r"\.(agentnb-[\w-]+) \{", text)
    assert [name for name, times in Counter(seen).items() if times > 1] == [], "two things with one name share their look"


def test_every_style_rule_is_used_and_every_class_defined() -> None:
    sheet = re.sub(r"/\*.*?\*/", "", style_sheet(), flags=re.DOTALL)
    styled, scripted = set(re.findall(r"\.(agentnb-[\w-]+)", sheet)), set(CLASS.findall(SCRIPTS))
    found = {
        name
        for html in (*runs(), *quiet_runs(), *pieces(), *many(), *workflows(), *experiments(), *server_views())
        for name in classes(html)
    } - set(NO_FORMULAS.split())
    assert styled - found - scripted == set()
    own = set(CLASS.findall("".join(path.read_text("utf-8") for path in STATIC.glob("*.css"))))
    assert found - styled - scripted - own == {f"agentnb-{name}" for name in NO_STYLE}
