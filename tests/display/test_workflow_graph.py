"""The graph of a workflow as HTML and as text."""

from __future__ import annotations

import re

import pytest
from asserted_sentences import Snapshot
from drawn_workflows import BRANCH, LOOP, NESTED, ONCE_AROUND, spec_of, workflow_run
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from shown_words import words_in

from agentnb.display.graph.workflow_graph import graph_html
from agentnb.display.graph.workflow_text import graph_text
from agentnb.display.texts.states import STEP_STATES
from agentnb.display.texts.step_labels import MARKS, SUBSTITUTED, TONES
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.form.workflow_spec import AgentStep, ConditionStep, ToolStep, WorkflowSpec
from agentnb.workflow.graph.node_states import NodeState, node_states


def test_every_state_has_a_mark_a_word_and_a_style() -> None:
    assert set(MARKS) > {*STEP_STATES, "", SUBSTITUTED} and {*TONES, "skipped"} >= {*STEP_STATES, SUBSTITUTED}
    for status, word in STEP_STATES.items():
        html = graph_html(spec_of(LOOP), {"draft": NodeState(status, 1)})
        assert (
            f"{MARKS[status]}" in html
            and f">{word}</span>" in html
            and f"agentnb-graph-frame-{TONES.get(status, status)}" in html
        )
        assert graph_text(spec_of(LOOP), {"draft": NodeState(status, 1)}).startswith(f"{MARKS[status]} draft  agent writer")


def test_graph_without_styles_is_readable_in_order_with_jump_targets(snapshot: Snapshot) -> None:
    spec = spec_of(LOOP)
    shown = words_in(graph_html(spec, node_states(drawing_of(spec), workflow_run(LOOP, ONCE_AROUND))))
    assert shown == snapshot


def test_graph_is_rendered_as_a_text_outline(subtests: pytest.Subtests) -> None:
    cases = {
        LOOP: [
            "○ draft  agent writer",
            "○ enough  if $steps.draft.output.words >= 5",
            "    true → print",
            "    false → expand",
            "○ expand  agent editor",
            "    ↑ back to draft",
            "○ print  agent printer",
        ],
        NESTED: [
            "○ outer  parallel",
            "    ○ generator  agent",
            "    ○ inner  parallel",
            "        ○ researcher  agent",
            "        ○ summarizer  agent",
            "○ publisher  agent",
        ],
    }
    for text, lines in cases.items():
        with subtests.test(lines[0]):
            assert graph_text(spec_of(text)).splitlines() == lines
    states = {"each": NodeState("running", 1, items={"completed": 9, "failed": 1, "running": 2})}
    assert "● each  map  running  9 of 12 done, 1 failed, 2 running" in graph_text(spec_of(BRANCH), states).splitlines()


def test_graph_uses_only_html_allowed_in_untrusted_notebooks() -> None:
    html = graph_html(spec_of(BRANCH))
    assert set(re.findall(r"<(\w+)", html)) == {"div", "span"}
    assert not re.search(r"<svg|<img|<script|url\(|on\w+=", html)


@examples(300)
@given(st.text(min_size=1), st.text(), st.text())
def test_hostile_text_never_becomes_markup(name: str, condition: str, error: str) -> None:
    steps = (AgentStep(id=name, path=name, agent=condition), ConditionStep(id="c", path="c", condition=condition))
    html = graph_html(WorkflowSpec(steps=steps), {name: NodeState("failed", error=error), "c": NodeState()})
    assert set(re.findall(r"<(\w+)", html)) == {"div", "span"}
    assert all(re.fullmatch(r'(<\w+( [\w-]+="[^"]*")*|</\w+)', match) for match in re.findall(r"<[^>]*", html))
    assert all(ord(letter) >= 32 for letter in html)


def test_each_step_is_one_outline_line_without_control_characters() -> None:
    odd = "odd\x1b[2J\r\nname"
    steps = (ToolStep(id=odd, path=odd, tool=odd), ConditionStep(id="c", path="c", condition=odd))
    lines = graph_text(WorkflowSpec(steps=steps), {odd: NodeState("failed", error="no\nluck\x07"), "c": NodeState()})
    assert len(lines.split("\n")) == 3 and lines.replace("\n", "").isprintable()


def test_drawing_of_a_large_workflow_stays_small() -> None:
    spec = WorkflowSpec(steps=tuple(ToolStep(id=f"t{n}", path=f"t{n}", tool="x" * 50_000) for n in range(2_000)))
    assert len(graph_html(spec)) < 40_000
    assert len(graph_text(spec).splitlines()) < 40
