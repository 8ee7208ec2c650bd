"""YAML source: values, lines, and problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.errors import WorkflowProblems
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MAX_NODES, ListNode, MappingNode, ScalarNode, plain, read_mapping, read_yaml
from agentnb.workflow.plan import Plan

EXAMPLES = Path(__file__).parent / "examples"


def read(text: str) -> Any:
    """Return the value of a text without problems."""
    problems = Problems()
    node = read_yaml(text, problems)
    assert problems.found == []
    assert node is not None
    return plain(node)


def refused(text: str) -> list[tuple[int, str]]:
    """Return lines and messages of the problems in a text."""
    problems = Problems()
    read_yaml(text, problems)
    return [(problem.line, f"{problem.message} {problem.hint}") for problem in problems.found]


def test_scalars_are_parsed_as_yaml_1_2(subtests: pytest.Subtests) -> None:
    values: dict[str, Any] = {
        "on": "on",
        "yes": "yes",
        "No": "No",
        "true": True,
        "False": False,
        "~": None,
        "": None,
        "null": None,
        '"true"': "true",
        "010": 10,
        "0o17": 15,
        "0x1F": 31,
        "-3": -3,
        "1_000": "1_000",
        ".5": 0.5,
        "1e3": 1000.0,
        "2026-01-01": "2026-01-01",
        "12:30:45": "12:30:45",
        "'3'": "3",
        "<<": "<<",
    }
    for written, value in values.items():
        with subtests.test(written):
            result = read(f"key: {written}")["key"]
            assert (result, type(result)) == (value, type(value))


def test_keys_are_strings_whatever_they_look_like() -> None:
    assert read('true: 1\n"false": 2\non: 3\n4: 5\nNull: 6') == {"true": 1, "false": 2, "on": 3, "4": 5, "Null": 6}
    assert read("True: 1\nFALSE: 2") == {"true": 1, "false": 2}


def test_json_is_read_verbatim() -> None:
    value = {"workflow": [{"type": "agent", "n": 1.5, "true": None, "text": 'a\n"b"\\ é'}]}
    assert read(json.dumps(value, indent="\t")) == value


def test_every_yaml_node_has_its_line_number() -> None:
    node = read_yaml("a: 1\nb:\n  - x\n  - {c: y}\n\r\nd: |\n  one\n  two\n", Problems())
    assert isinstance(node, MappingNode)
    assert {key: (entry.line, entry.value.line) for key, entry in node.entries.items()} == {
        "a": (1, 1),
        "b": (2, 3),
        "d": (6, 6),
    }
    items = node.entries["b"].value
    assert isinstance(items, ListNode)
    assert [item.line for item in items.items] == [3, 4]
    literal = node.entries["d"].value
    assert isinstance(literal, ScalarNode)
    assert [literal.line_of(0), literal.line_of(literal.text.index("two"))] == [7, 8]


def test_lossy_or_unreadable_yaml_is_reported_with_its_line(subtests: pytest.Subtests) -> None:
    cases = {
        "a: 1\nb: 2\na: 3": (3, "appears twice, first in line 1"),
        'true: 1\n"true": 2': (2, "appears twice"),
        "a: !!python/object/apply:os.system [ls]": (1, "tag"),
        "a: 1\nb: !mine x": (2, "tag"),
        "a: 1\n---\nb: 2": (2, "second document"),
        "? [a, b]\n: c": (1, "A key cannot be a list"),
        "a: 1\nb: {{ $steps.a.output }}": (2, "quotation marks"),
        "a: 1\nb: *c": (2, "*c refers to no earlier anchor"),
        "a: 1\nb:\n  <<: [{c: 1}, 2]": (3, '<< merges mappings, not "2"'),
        "a: &a {b: 1}\nc: {<<: *a, d: 1, d: 2}": (2, "appears twice"),
        "a: &a [*a]": (1, "*a refers to a value that contains it"),
        "a: 1\nb: 99999999999999999999": (2, "too large"),
        "a: .inf": (1, "not finite"),
        "a: 1e999": (1, "not finite"),
        f"a: {'9' * 5000}": (1, "too large"),
        "a: [1\nb: 2": (2, "not YAML"),
        "a: [\nb: 2\n": (3, "not YAML"),
        "a:\n\tb: 1": (2, "Indent with spaces"),
        "a: b: c": (1, "quotes"),
        "a: 1\nb: \x07": (2, "U+0007"),
        'a: 1\nb: "\\ud800"': (2, "surrogate"),
        "": (1, "empty"),
        "# only a comment": (1, "empty"),
        "[" * 100_000: (1, "deeper than 64 levels"),
        "x" * 1_000_001: (1, "1,000,000"),
        f"a: &a {'x' * 500_000}\nb: [{'*a, ' * 9}]": (2, "Aliases repeat more than 4,000,000 characters"),
    }
    for text, (line, words) in cases.items():
        with subtests.test(text[:40]):
            problems = refused(text)
            assert problems, "it was read"
            assert problems[0][0] == line
            assert words in problems[0][1]


def test_aliases_repeat_a_value_up_to_a_limit() -> None:
    assert read("a: &a {x: [1]}\nb: *a\nc: [*a, *a]")["c"] == [{"x": [1]}, {"x": [1]}]
    bomb = "l0: &l0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    (problem,) = refused(bomb)
    assert f"{MAX_NODES:,}" in problem[1]
    deep = "l0: &l0 [[[[[[[[[[x]]]]]]]]]]\n" + "".join(f"l{n}: &l{n} [[[[[[[[[[*l{n - 1}]]]]]]]]]]\n" for n in range(1, 9))
    assert "deeper" in refused(deep)[0][1]


def test_merge_keys_copy_keys_from_other_mappings(subtests: pytest.Subtests) -> None:
    bases = "x-a: &a {n: 1, m: 1}\nx-b: &b {m: 2, k: 2}\n"
    for merging, value in {
        "<<: *a": {"n": 1, "m": 1},
        "n: 3, <<: *a": {"n": 3, "m": 1},
        "<<: [*a, *b]": {"n": 1, "m": 1, "k": 2},
        "<<: [*b, {n: 4}], m: 3": {"m": 3, "k": 2, "n": 4},
        "<<: *a, <<: *b": {"n": 1, "m": 1, "k": 2},
        "'<<': *a": {"<<": {"n": 1, "m": 1}},
    }.items():
        with subtests.test(merging):
            assert read(f"{bases}c: {{{merging}}}")["c"] == value
    problems = Problems()
    node = read_mapping(f"{bases}c:\n  <<: *b\n  n: 5", problems, "", "")
    assert node is not None
    assert [*node.entries] == ["c"]
    merged = node.entries["c"].value
    assert isinstance(merged, MappingNode)
    assert {key: entry.line for key, entry in merged.entries.items()} == {"m": 2, "k": 2, "n": 5}


def test_every_file_form_supports_merge_keys_and_custom_keys(subtests: pytest.Subtests) -> None:
    base = "x-base: &base\n  KEY: 1\n"
    for read_form, key, rest in (
        (read_workflow, "budgett", "agents:\n  a: {instruction: b, <<: *base}\nworkflow: [{type: agent, name: a}]\n"),
        (read_workflow, "acton", "stage:\n  a: {action: a:b, <<: *base}\n"),
        (Plan.read, "reazon", "steps:\n  - {name: a, <<: *base}\n"),
    ):
        with subtests.test(key), pytest.raises(WorkflowProblems, match=key) as caught:
            read_form(base.replace("KEY", key) + rest)
        assert caught.value.problems[0].line == 2
    tasks = read_workflow("x-retry: &retry {retry: {maxRetries: 2}}\nstage:\n  a: {action: a:b, <<: *retry}\n").tasks
    assert tasks[0].retry.max_attempts == 2


def test_all_duplicate_keys_are_found_at_once() -> None:
    assert [line for line, _ in refused("a: 1\na: 2\nb: {c: 1, c: 2}\nd: [{e: 1,\n e: 2}]")] == [2, 3, 5]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=40), inner, max_size=4),
    max_leaves=12,
)


@examples(300)
@given(value=JSON)
def test_any_json_round_trips(value: Any) -> None:
    assert read(json.dumps({"value": value})) == {"value": value}


@examples(500)
@given(text=st.text(st.sampled_from("ab:-[]{}&*!|>#'\"%@?,\n \t\\~1.0") | st.characters(), max_size=60))
def test_any_yaml_text_is_read_or_refused_with_a_line(text: str) -> None:
    problems = Problems()
    node = read_yaml(text, problems)
    assert node is not None or problems.found
    assert all(1 <= problem.line <= text.count("\n") + text.count("\r") + 2 for problem in problems.found)


def test_every_example_is_read() -> None:
    for path in EXAMPLES.glob("*.yaml"):
        read(path.read_text(encoding="utf-8"))
