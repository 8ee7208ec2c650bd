"""Calls written as text are recognized in every notation, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scripted_runs import add

from agentnb.agent.agent import Agent
from agentnb.models.scripted import ScriptedModel
from agentnb.policies.claimed_calls import MAX_CHARACTERS, claimed_call

TOOLS = ("add", "load_table", "todo_operations")
CALL = '{"name": "add", "arguments": {"a": 1, "b": 2}}'

CLAIMS = [
    f"<tool_call>{CALL}</tool_call>",
    f"I add them.\n<tool_call>\n{CALL}\n</tool_call>\nThe sum is 3.",
    f"<tool_calls>[{CALL}]</tool_calls>",
    "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    '<function=add>{"a": 1, "b": 2}</function>',
    '<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>',
    'Let me see.\n\n<function_calls><invoke name="add"></invoke></function_calls>',
    '<x:function_calls>\n  <x:invoke name="add">\n  </x:invoke>\n</x:function_calls>',
    f"[TOOL_CALLS][{CALL}]",
    '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}',
    '[TOOL_CALLS] add{"a": 1}',
    CALL,
    f"```json\n{CALL}\n```",
    f"~~~\n{CALL}\n~~~\n",
    f"[{CALL}]",
    '{"tool": "add", "parameters": {}}',
    '{"function": "add", "input": {"a": 1}}',
    '{"type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}',
    "add(1, 2)",
    "  add(a=1, b=2)\n",
    "```python\nadd(a=1, b=2)\n```",
    "`add()`",
    'add(text="a) b", more=[(1, 2), {"c": "\\")"}])',
    "add(\n    a=1,\n    b=2,\n)",
]


@pytest.mark.req("R0.70", "R0.81")
def test_call_of_a_known_tool_written_as_text_is_recognized(subtests: pytest.Subtests) -> None:
    for text in CLAIMS:
        with subtests.test(text=text):
            assert claimed_call(text, TOOLS) == "add"
            assert claimed_call(f"\n {text} \n", TOOLS) == "add"


@pytest.mark.req("R0.70")
def test_call_of_an_unknown_tool_is_not_recognized(subtests: pytest.Subtests) -> None:
    for text in CLAIMS:
        with subtests.test(text=text):
            assert claimed_call(text, ("other", "ad", "addition")) is None
            assert claimed_call(text, ()) is None


def test_claimed_calls_are_recognized_in_runs_despite_json_escapes(subtests: pytest.Subtests) -> None:
    for text in (*CLAIMS, CALL.replace("add", "\\u0061dd")):
        with subtests.test(text=text):
            run = Agent(ScriptedModel([text, "3"]), tools=[add], todos=False, instructions=False).run_sync("Go")
            assert [round.reason for round in run.rounds] == ["prompt", "claimed_call"]


def test_first_known_call_is_reported() -> None:
    text = '<invoke name="gone">\n</invoke>\n<invoke name="load_table">\n</invoke>\n<invoke name="add">\n</invoke>'
    assert claimed_call(text, TOOLS) == "load_table"


ANSWERS = [
    "The sum is 3.",
    "I called add with 1 and 2, and it returned 3.",
    "I will now call add.",
    "Use `add(1, 2)` to get 3.",
    "add(1, 2) returned 3.",
    "add(1, 2) and add(3, 4) give (3) and (7)",
    "add (the tool) is not what you want (yet)",
    "add(1, 2",
    "add",
    "To add them, write:\n\n```python\nadd(1, 2)\n```\n\nThat prints 3.",
    "```python\ntotal = add(1, 2)\nprint(total)\n```",
    "```python\nadd(1, 2)\n```\nand\n```python\nadd(3, 4)\n```",
    '```xml\n<invoke name="add">\n</invoke>\n```',
    f"Such models write:\n\n```\n<tool_call>{CALL}</tool_call>\n```\n\nand no tool runs.",
    f"Some models write <tool_call>{CALL}</tool_call> where they should make a call.",
    "The tag `<function=add>` names the tool.",
    '> <invoke name="add">',
    "[TOOL_CALLS] is the token of Mistral for a call, as of add.",
    f"The call was:\n{CALL}",
    f"{CALL}\nis what I sent.",
    '{"name": "add", "age": 3}',
    '{"name": "add", "arguments": 2}',
    '{"name": "add", "input": "a number"}',
    '{"name": "Ada", "arguments": {"a": 1}}',
    '{"sum": 3, "add": {"name": "add"}}',
    '["add", "load_table"]',
    '{"add": {"a": 1}}',
    "[]",
    "{}",
    "```",
    "<tool_call>",
    "<table><tr><td>add</td></tr></table>",
    "add(x) = x + 1, so add(add(1)) = 3, as (1 + 1) + 1",
]


@pytest.mark.req("R0.81")
def test_answer_about_tools_contains_no_call(subtests: pytest.Subtests) -> None:
    for text in ANSWERS:
        with subtests.test(text=text):
            assert claimed_call(text, TOOLS) is None


words = st.sampled_from(
    [
        "add",
        "load_table",
        "`add`",
        "`add(1, 2)`",
        "add(1, 2)",
        "the",
        "sum",
        "is",
        "3",
        "(",
        ")",
        "{",
        "}",
        '"name"',
        ":",
        "arguments",
        "[x]",
    ]
)
sentences = st.lists(words, min_size=1, max_size=12).map(lambda found: "I see " + " ".join(found) + ".")
prose = st.lists(sentences, min_size=1, max_size=4).map("\n".join)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(TOOLS) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "tool", "result", "value", "a"]), inner, max_size=4)
    ),
    max_leaves=9,
)


@pytest.mark.req("R0.81")
@given(prose)
@example("I see add.\nI see `add(1, 2)`.")
def test_prose_with_tool_names_contains_no_call(text: str) -> None:
    assert claimed_call(text, TOOLS) is None


@pytest.mark.req("R0.81")
@given(prose)
def test_code_block_in_prose_contains_no_call(text: str) -> None:
    shown = f'{text}\n\n```\n<tool_call>{CALL}</tool_call>\n<invoke name="add">\n```\n\n{text}'
    assert claimed_call(shown, TOOLS) is None


@pytest.mark.req("R0.81")
@given(plain)
def test_json_answer_without_arguments_contains_no_call(value: object) -> None:
    assert claimed_call(json.dumps(value), TOOLS) is None
    assert claimed_call(f"```json\n{json.dumps(value, indent=1)}\n```", TOOLS) is None


@given(st.text(alphabet="<>[]{}()`\"'\\~\n atool_cfunin=:TOOLCALLS", max_size=300))
def test_parser_never_raises(text: str) -> None:
    assert claimed_call(text, TOOLS) in (None, "add")


HOSTILE = {
    "tags": "<tool_call>\n",
    "tags on one line": "<tool_call>",
    "wrappers": "<a> ",
    "spaces": "<tool_call>" + " " * 50,
    "fences": "```\n",
    "open fence": "```\n \n",
    "brackets": "[",
    "objects": '{"name":',
    "opening": "add(",
    "quotes": "add(\"'",
    "names": '<tool_call>{"name": "other"',
    "lines": "\n",
    "invokes": '<invoke name="other">\n',
    "indents": "   ",
}


def test_hostile_text_is_scanned_only_once(subtests: pytest.Subtests) -> None:
    """A backtracking search would not finish."""
    for kind in HOSTILE:
        with subtests.test(kind=kind):
            for size in (MAX_CHARACTERS - 4, 10 * MAX_CHARACTERS):
                text = (HOSTILE[kind] * (size // len(HOSTILE[kind]) + 1))[:size]
                assert claimed_call(text, TOOLS) is None
                assert claimed_call(f"add({text}", TOOLS) is None


def test_text_beyond_the_maximum_is_not_scanned() -> None:
    assert claimed_call("x\n" * (MAX_CHARACTERS // 2) + f"<tool_call>{CALL}", TOOLS) is None
    assert claimed_call(f"add({'1, ' * MAX_CHARACTERS})", TOOLS) is None
