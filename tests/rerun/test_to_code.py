"""The calls of a run as Python that runs without the agent, and never runs model text."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from some_events import json_values

from agentnb import Agent, Run, ToolCall, load_trace, tool
from agentnb.core.log.events import Origin
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.models import ScriptedModel
from agentnb.rerun.code.to_code import to_code


@tool
def total(numbers: list[float], by: str = "sum") -> float:
    """Add."""
    if by != "sum":
        raise ValueError("unknown way")
    return sum(numbers)


def run_of(*calls: ToolCall, text: str = "I look.") -> Run:
    writer = RunWriter(Origin("by_hand"))
    writer.say("Go")
    writer.reply(text, calls)
    for number, _ in enumerate(calls):
        writer.result("", f"result {number}")
    return writer.finish()


def test_generated_code_repeats_the_calls_with_equal_results() -> None:
    replies: list[Any] = [
        ["First.", ToolCall("total", {"numbers": [1, 2.5]})],
        ToolCall("total", {"numbers": [3.5, 4]}),
        "Done.",
    ]
    run = Agent(ScriptedModel(replies), tools=[total]).run_sync("Add it all\nup")
    code = to_code(run)
    assert code.startswith("# %% Add it all up\n") and "# %% Round 1\n# First.\nresult_1 = total(numbers=[1, 2.5])" in code
    names: dict[str, Any] = {"total": total}
    exec(code, names)
    assert [str(names["result_1"]), str(names["result_2"])] == [
        result.text for round_ in run.rounds for result in round_.results
    ]


def test_generated_code_for_agent_calls_has_a_comment() -> None:
    agent = Agent(ScriptedModel(["Found it."]), name="researcher")
    run = Agent(ScriptedModel([ToolCall("researcher", {"prompt": "Find it."}), "Done."]), tools=[agent]).run_sync("Go")
    (begun,) = run.rounds[0].records[0].nested
    code = to_code(run)
    comment = f"The call started {begun.run_id}. If researcher is an agent or a workflow, write researcher.run_sync(...).text"
    assert comment in " ".join(code.replace("\n# ", " ").split())
    assert "result_1 = researcher(prompt='Find it.')" in code
    assert "# The call started" not in to_code(run_of(ToolCall("researcher", {"prompt": "Find it."})))


def test_generated_code_omits_failed_calls_and_todo_calls() -> None:
    replies = [[ToolCall("total", {"numbers": [1], "by": "mean"}), ToolCall("nothing", {"a": 1})], "Done."]
    code = to_code(Agent(ScriptedModel(replies), tools=[total]).run_sync("Go"))
    assert "# total(numbers=[1], by='mean')" in code and "unknown way" in code and "# nothing(a=1)" in code
    assert ast.parse(code).body == []
    healthy = to_code(load_trace("healthy"))
    assert "todo_operations" not in healthy and healthy.count(" = web_search(query=") == 12


def test_run_without_calls_generates_only_a_note() -> None:
    assert "# The run called no tools." in to_code(run_of())


NAMES = st.sampled_from(["look", "os.remove", "a b", "x); import os", "class", "größe", "look\nos"]) | st.text(min_size=1)
KEYWORDS = st.sampled_from(["__debug__", "fi", "\ufb01", "a", "None", "print"])


def test_odd_names_and_deep_arguments_stay_comments(subtests: pytest.Subtests) -> None:
    deep: Any = 1
    for _ in range(95):
        deep = {"a": [deep]} if not isinstance(deep, dict) or len(str(deep)) < 300 else {"a": deep}
    cases: dict[str, ToolCall] = {
        "NUL": ToolCall("a\0b", {}),
        "form feed": ToolCall("a\x0cimport os", {}),
        "line separator": ToolCall("a\u2028import os", {}),
        "repeated after normalization": ToolCall("f", {"fi": 1, "\ufb01": 2}),
        "reserved": ToolCall("f", {"__debug__": 1}),
        "deep": ToolCall("f", {"a": deep}),
    }
    for name, call in cases.items():
        with subtests.test(name):
            code = to_code(run_of(call))
            compile(code, name, "exec")
            assert all(isinstance(one, ast.Assign) for one in ast.parse(code).body)


@examples(60)
@given(NAMES, st.dictionaries(KEYWORDS | st.text(), json_values, max_size=3), st.booleans())
def test_generated_code_of_any_call_compiles(name: str, arguments: dict[str, Any], fails: bool) -> None:
    writer = RunWriter(Origin("by_hand"))
    writer.reply("", [ToolCall(name, arguments)])
    writer.result("", "no" if fails else "yes", is_error=fails)
    code = to_code(writer.finish())
    compile(code, "run", "exec")
    assert all(isinstance(one, ast.Assign) for one in ast.parse(code).body)


@examples(60)
@given(st.text(max_size=60), NAMES, json_values)
def test_any_model_output_becomes_a_comment_or_a_call(text: str, name: str, value: Any) -> None:
    arguments = value if isinstance(value, dict) else {"value": value}
    tree = ast.parse(to_code(run_of(ToolCall(name, arguments), text=text or "x")))
    for statement in tree.body:
        assert isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        call = statement.value
        made = {word.arg: word.value for word in call.keywords}
        if None in made:
            (whole,) = call.keywords
            assert ast.literal_eval(whole.value) == arguments
        else:
            assert {key: ast.literal_eval(item) for key, item in made.items() if key} == arguments
