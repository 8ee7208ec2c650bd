"""A workflow as a Mermaid flowchart."""

from __future__ import annotations

import re

import pytest
from asserted_sentences import Snapshot
from drawn_workflows import BRANCH, LOOP, NESTED, ONCE_AROUND, spec_of, workflow_run
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.form.workflow_spec import AgentStep, HumanStep, WorkflowSpec
from agentnb.workflow.graph.mermaid import escape, mermaid
from agentnb.workflow.graph.node_states import node_states


@pytest.mark.req("R4.36")
def test_flowchart_has_steps_branches_loops_and_blocks(subtests: pytest.Subtests) -> None:
    cases = {
        "a loop is dotted": (LOOP, ["n0 --> n1", 'n1 -->|"true"| n3', 'n1 -->|"false"| n2', "n2 -.-> n0"]),
        "kinds have shapes": (
            BRANCH,
            ['n5[/"approve<br/>human Publish?"/]', 'n2[["each<br/>map agent reader"]]', "finish([end])"],
        ),
        "attempts after the first are retries": (
            "agents: {a: }\nworkflow: [{type: agent, name: a, retry: {max_attempts: 2}}]\n",
            ['n0["a<br/>agent<br/>up to 2 retries"]'],
        ),
        "blocks are subgraphs": (
            NESTED,
            ['    subgraph n0["outer<br/>parallel"]', '        subgraph n2["inner<br/>parallel"]'],
        ),
    }
    for name, (text, expected) in cases.items():
        with subtests.test(name):
            lines = mermaid(drawing_of(spec_of(text))).splitlines()
            assert lines[0] == "flowchart TD"
            assert [one for one in expected if not any(line.endswith(one) for line in lines)] == []
            opened, closed = [sum(line.strip().startswith(word) for line in lines) for word in ("subgraph ", "end")]
            assert opened == closed


@pytest.mark.req("R4.36")
def test_mermaid_shows_states_as_classes_and_counts_loops() -> None:
    spec = spec_of(LOOP)
    text = mermaid(drawing_of(spec), node_states(drawing_of(spec), workflow_run(LOOP, ONCE_AROUND)))
    assert 'n2 -.->|"(1x)"| n0' in text
    assert re.search(r"class n1,n2 completed$", text, re.MULTILINE) and re.search(r"class n0 running$", text, re.MULTILINE)
    assert "draft<br/>agent writer<br/>ran 2 times" in text and "expand<br/>agent editor<br/>2 attempts, 1 retry" in text
    assert "classDef failed" not in text


@examples(500)
@given(st.text(min_size=1).filter(lambda text: text != "h"))
def test_workflow_text_never_becomes_markup(text: str) -> None:
    steps = (AgentStep(id=text, path=text, agent=text), HumanStep(id="h", path="h", ask=text))
    lines = mermaid(drawing_of(WorkflowSpec(steps=steps))).splitlines()
    assert len(lines) == 4
    for line, opened in ((lines[1], 'n0["'), (lines[2], 'n1[/"')):
        label = line.strip().removeprefix(opened).removesuffix('"/]').removesuffix('"]')
        assert not set('"`\\%') & set(label) and "$$" not in label
        assert re.findall(r"<[^>]*>|[<>]", label) == ["<br/>"] * label.count("<br/>") and label.count("<br/>") <= 1


def test_directives_formulas_and_tags_are_escaped(snapshot: Snapshot) -> None:
    assert escape('%%{init}%% $$x$$ <img src=x> `b` "q" &amp; #1;') == snapshot
    assert escape("a\\nb") == "a#92;nb"
    assert escape("a\nb\x1b[0m") == "a b [0m" and len(escape("x" * 1_000)) == 60
