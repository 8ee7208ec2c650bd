"""Spans of OpenInference in each spelling of their attributes, written by hand from the specification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb import Run, load_trace, load_traces
from agentnb.core.messages import Image

FILES = Path(__file__).parent / "files" / "openinference"


def told(run: Run) -> list[Any]:
    return [
        (round_.text, [(each.call.name, each.call.arguments, each.result and each.result.text) for each in round_.records])
        for round_ in run.rounds
    ]


@pytest.mark.req("R0.83")
def test_flat_otlp_attributes_are_read_and_duplicate_calls_merged() -> None:
    run = load_trace(FILES / "otlp.json")
    assert told(run) == [("", [("get_weather", {"location": "Boston"}, '{"temperature": 65}')]), ("65 degrees.", [])]
    assert (run.prompt, run.system, run.agent, run.model) == ("Weather in Boston?", "Be brief.", "weather", "gpt-4o")
    assert any(isinstance(part, Image) for part in run.messages[0].parts)
    usage = run.rounds[0].usage
    assert usage and (usage.input, usage.output, usage.cache_read, usage.cost) == (50, 5, 40, 0.002)
    assert run.rounds[0].records[0].seconds == 0.3 and run.seconds == 2.1


def test_messages_with_dotted_keys_are_read() -> None:
    run = load_trace(FILES / "lists-of-messages.json")
    assert told(run) == [("", [("multiply", {"a": 23, "b": 87}, "2001")]), ("It is 2001.", [])]
    assert (run.prompt, run.system) == ("what is 23 times 87", "You speak as in old plays.")


def test_nested_attributes_are_read_and_traces_become_runs() -> None:
    runs = load_traces(FILES / "nested-attributes.jsonl")
    assert [(run.prompt, run.text, run.usage.input, run.usage.cache_read) for run in runs] == [
        ("Question 1?", "Answer 1.", 11, 0),
        ("Question 2?", "Answer 2.", 12, 0),
    ]
    assert [run.origin and run.origin.position for run in runs] == ["trace t1", "trace t2"]


def test_openinference_instrumentation_output_is_read_completely() -> None:
    run = load_trace(FILES / "openai-instrumentation.jsonl")
    calls = [("weather", {"city": "Paris"}, "rain"), ("weather", {"city": "Atlantis"}, "LookupError: no city Atlantis")]
    assert told(run) == [("", calls), ("It rains in Paris; of Atlantis nothing is known.", [])]  # spans of tools have no ids
    assert [record.result and record.result.error_code for record in run.rounds[0].records] == [None, "tool_error"]
    assert (run.prompt, run.system) == ("Does it rain in Paris and in Atlantis?", "You know the weather.")
    assert (run.agent, run.status, run.warnings) == ("forecaster", "completed", ())
    assert (run.usage.input, run.usage.output, run.usage.cache_read, run.usage.reasoning) == (140, 40, 32, 8)


def test_flat_phoenix_spans_are_read() -> None:
    run = load_trace(FILES / "phoenix.json")
    assert told(run) == [("", [("look", {"at": "tower"}, "no ladder")]), ("It is 7 m.", [])]
    assert run.rounds[0].records[0].result and run.rounds[0].records[0].result.error_code == "tool_error"
    assert (run.agent, run.prompt, run.model, run.status, run.seconds) == ("surveyor", "How high?", "gpt-4o", "completed", 5.0)
    assert (run.usage.input, run.usage.output) == (31, 10)
