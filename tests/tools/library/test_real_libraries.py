"""Functions and methods of real libraries as tools, from their schema to their result."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, ToolCall
from agentnb.errors import InvalidTool
from agentnb.models import ScriptedModel
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.function import FunctionTool
from agentnb.tools.tool import ToolContext, ToolOutcome

MAX_SCHEMA = 10_000
"""Maximum characters of a schema: pandas describes a reader with 47 parameters."""


def sales() -> pd.DataFrame:
    return pd.DataFrame({"region": ["north", "south", "north"], "amount": [1, 2, 4], "describe": [0, 0, 0]})


def call(function: Callable[..., Any], /, **arguments: Any) -> ToolOutcome:
    context = ToolContext("r-1", "toolu_1", Path("data"), call_in_thread)
    return asyncio.run(FunctionTool(function).run(arguments, context))


@pytest.mark.req("R2.3")
def test_read_csv_takes_a_path_and_plain_arguments() -> None:
    properties = FunctionTool(pd.read_csv).spec.input_schema["properties"]
    types = {name: properties[name].get("type") or [option["type"] for option in properties[name]["anyOf"]] for name in PLAIN}
    assert types == PLAIN
    assert properties["sep"]["description"].startswith("Character or regex pattern")


PLAIN = {
    "filepath_or_buffer": "string",
    "sep": ["string", "null"],
    "usecols": ["array", "null"],
    "nrows": ["integer", "null"],
    "parse_dates": ["boolean", "array", "null"],
    "decimal": "string",
}


@pytest.mark.req("R2.3")
def test_dropped_parameters_of_a_library_are_listed() -> None:
    gaps = "\n".join(FunctionTool(pd.read_csv).signature.gaps)
    assert "filepath_or_buffer is offered without PathLike[str], ReadCsvBuffer[bytes]" in gaps
    assert "converters is not offered to the model" in gaps


@pytest.mark.req("R2.3")
def test_manuals_are_not_sent_as_descriptions(subtests: pytest.Subtests) -> None:
    for function in [pd.read_csv, sales().describe, sales().groupby, pd.to_datetime, np.mean, json.loads]:
        with subtests.test(function=function.__name__):
            spec = FunctionTool(function).spec
            assert 0 < len(spec.description) <= 1_000
            assert len(json.dumps(spec.input_schema)) <= MAX_SCHEMA


def test_library_functions_are_called(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "sales.csv").write_text("day;amount\n1;2\n3;4\n")
    frame = sales()
    cases: list[tuple[str, Callable[..., Any], dict[str, Any], Any]] = [
        ("frame", pd.read_csv, {"filepath_or_buffer": "sales.csv", "sep": ";", "usecols": ["amount"], "nrows": 1}, "amount"),
        ("bound", frame.describe, {}, "mean"),
        ("with arguments", frame.describe, {"include": "all"}, "top"),
        ("object", frame.groupby, {"by": "region"}, "DataFrameGroupBy object"),
        ("query", frame.query, {"expr": "amount > 2"}, "north"),
        ("json", json.loads, {"s": "[1, 2]"}, "[1,2]"),
        ("C", math.sqrt, {"x": 9}, "3.0"),
        ("statistics", statistics.mean, {"data": [1, 2, 6]}, "3"),
        ("numpy", np.mean, {"a": [1, 2, 6]}, "3.0"),
        ("norm", np.linalg.norm, {"x": [3, 4]}, "5.0"),
        ("ufunc", np.add, {"x1": [1, 2], "x2": 3}, "[4 5]"),
    ]
    for name, function, arguments, text in cases:
        with subtests.test(name):
            outcome = call(function, **arguments)
            assert outcome.ok, outcome.text
            assert text in outcome.text
    assert call(frame.head, n=2).display is not None, "a frame is shown as a table"


@pytest.mark.req("R2.3")
def test_function_requiring_a_data_frame_is_refused_suggesting_a_wrapper() -> None:
    with pytest.raises(InvalidTool, match=r"merge expects left: DataFrame.*Wrap it.*def my_merge\(left: str\)"):
        FunctionTool(pd.merge)
    with pytest.raises(InvalidTool, match="merge expects right"):
        FunctionTool(sales().merge)


@pytest.mark.req("R2.6")
def test_methods_with_one_name_are_refused_with_a_rename_hint(snapshot: Snapshot) -> None:
    with pytest.raises(InvalidTool, check=snapshot.worded):
        Agent(ScriptedModel([]), tools=[sales().describe, sales().describe])


def test_agent_accepts_library_methods_and_functions_as_tools() -> None:
    calls = [ToolCall("describe", {}), ToolCall("loads", {"s": "{}"})]
    agent = Agent(ScriptedModel([calls, "Done."]), tools=[sales().describe, json.loads], guidance="off", todos=False)
    run = agent.run_sync("Go.")
    assert [result.is_error for result in run.rounds[0].results] == [False, False]
    assert "mean" in run.rounds[0].results[0].text
