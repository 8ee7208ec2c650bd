"""Deeply nested arguments are refused on arrival, and logs can be read from a deep stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from property_settings import size
from run_checks import checked, codes, results
from scripted_runs import bare, reply
from summarising import Summarising

from agentnb import Agent, Store, load_trace, tables
from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.core.questions import answer_in_words, check_answer, check_answer_schema
from agentnb.core.request import ToolSpec
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep, text_is_too_deep
from agentnb.detect.run import Run
from agentnb.errors import InvalidTool, SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.testing import LoopbackServer
from agentnb.tools.tool import ToolOutcome
from agentnb.tools.toolbox import Toolbox

T = TypeVar("T")
WIRES = ("anthropic", "openai", "openai-responses", "compatible")
DEPTHS = [MAX_DEPTH + 1, 940, size(8_000, nightly=50_000)]
FRAMES = 120


def nested(depth: int) -> Any:
    """Return an object of nested lists, with so many levels in all."""
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return {"deep": value}


def text_of(depth: int) -> str:
    """Return nested lists as JSON."""
    return '{"deep":' + "[" * (depth - 1) + "1" + "]" * (depth - 1) + "}"


def deeper(frames: int, do: Callable[[], T]) -> T:
    """Call ``do`` that many frames deeper."""
    return do() if not frames else deeper(frames - 1, do)


def take(deep: list[Any]) -> str:
    """Takes nested lists."""
    return "taken"


class Whatever:
    """A tool that accepts any arguments."""

    spec = ToolSpec("whatever")
    effects = None
    parallel_safe = True
    blocking = False
    timeout = None

    def __init__(self) -> None:
        self.given: list[Any] = []

    async def run(self, arguments: Any, context: Any) -> ToolOutcome:
        self.given.append(arguments)
        return ToolOutcome(True, (Text("taken"),))


def assert_readable(run: Run, store: Store) -> None:
    path = store.path(run.id)
    assert deeper(FRAMES, lambda: load_trace(path)) == run
    assert deeper(FRAMES, lambda: len(tables.tool_calls(store))) == len(results(run))
    assert [summary.id for summary in store.summaries()] == [run.id]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", ["yes", pytest.param("no", marks=pytest.mark.nightly("by day replies are streamed"))])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.req("KX.11")
def test_deep_server_arguments_are_refused_and_the_log_stays_readable(
    wire: str, stream: str, depth: int, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    with LoopbackServer([["I call.", ToolCall("take", text_of(depth))], "Done."]) as server:
        run = checked(bare(server.model(wire, stream=stream), [take]).run_sync("go", store=store))
    assert (run.status, run.text, codes(run)) == ("completed", "Done.", ["invalid_arguments"])
    assert f"nested deeper than {MAX_DEPTH} levels" in results(run)[0].text and "again" in results(run)[0].text
    assert_readable(run, store)


@pytest.mark.parametrize("depth", [*DEPTHS[:-1], 5_000])
@pytest.mark.req("KX.11")
def test_deep_arguments_of_model_objects_are_refused_by_all_tools(depth: int, tmp_path: Path) -> None:
    store, tool = Store(tmp_path), Whatever()
    for call in (ToolCall("take", nested(depth), "1"), ToolCall("whatever", [nested(depth)], "1")):
        model = Summarising([reply(call), "Done."])
        run = checked(Agent(model, tools=[take, tool], guidance="off").run_sync("go", store=store))
        assert (run.status, codes(run)) == ("completed", ["invalid_arguments"]) and tool.given == []
        assert deeper(FRAMES, lambda: load_trace(store.path(run.id))) == run  # noqa: B023  # called at once


def test_arguments_within_the_depth_limit_are_accepted(tmp_path: Path) -> None:
    with LoopbackServer([ToolCall("take", text_of(MAX_DEPTH)), "Done."]) as server:
        store = Store(tmp_path)
        run = checked(bare(server.model("openai"), [take]).run_sync("go", store=store))
    assert codes(run) == [None] and run.rounds[0].calls[0].arguments == nested(MAX_DEPTH)
    assert_readable(run, store)


def test_refused_deep_call_does_not_prevent_other_calls() -> None:
    calls = [ToolCall("take", nested(200), "1"), ToolCall("take", {"deep": [1]}, "2")]
    run = checked(bare(ScriptedModel([reply(*calls), "Done."]), [take]).run_sync("go"))
    assert codes(run) == ["invalid_arguments", None]


def test_deeply_nested_reply_metadata_is_omitted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = [Thinking("Hm.", nested(500)), Text("Done.", nested(200)), ToolCall("take", {"deep": []}, "1", nested(2_000))]
    first = reply(*parts, metadata={"id": "m-1", "deep": nested(300)})
    run = checked(bare(ScriptedModel([first, "Done."]), [take]).run_sync("go", store=store))
    assert run.rounds[0].metadata == {"id": "m-1"} and run.rounds[0].reply is not None
    assert [getattr(part, "provider_metadata") for part in run.rounds[0].reply.parts] == [None] * 3  # noqa: B009
    assert_readable(run, store)


def test_depth_of_the_persons_input_is_limited(tmp_path: Path) -> None:
    store = Store(tmp_path)
    prompt = Message("user", (Text("go"), Thinking("Hm.", nested(2_000))))
    run = bare(ScriptedModel(["Done."])).run_sync(prompt, store=store)
    assert deeper(FRAMES, lambda: load_trace(store.path(run.id))) == run

    class Deep(Whatever):
        spec = ToolSpec("deep", "", {"type": "object", "properties": nested(300)})

    with pytest.raises(InvalidTool, match=f"deep.*deeper than {MAX_DEPTH} levels"):
        Toolbox([Deep()])
    with pytest.raises(SettingsError, match="nested deeper"):
        check_answer_schema({"const": nested(300)})
    with pytest.raises(SettingsError, match="nested deeper"):
        check_answer({"type": "object"}, nested(300))
    with pytest.raises(SettingsError):
        answer_in_words({"type": "object"}, text_of(300))
    assert answer_in_words({"type": "object"}, text_of(3)) == nested(3)


def test_depth_counts_nested_objects_and_lists() -> None:
    assert [is_too_deep(nested(depth)) for depth in (1, MAX_DEPTH, MAX_DEPTH + 1, 10_000)] == [False, False, True, True]
    assert not any(map(is_too_deep, ("text", None, 1, {}, [], [[]], {"a": list(range(1_000))})))
    shared: Any = []
    for _ in range(60):
        shared = [shared, (shared,)]  # 2**60 paths to the innermost value
    assert is_too_deep(shared)
    endless: list[Any] = []
    endless.append(endless)
    assert is_too_deep(endless)


def test_text_depth_counts_brackets_outside_strings() -> None:
    assert [text_is_too_deep(text_of(depth)) for depth in (1, MAX_DEPTH, MAX_DEPTH + 1, 5_000)] == [False, False, True, True]
    assert not text_is_too_deep(json.dumps({"code": "[{(" * 500 + '"\\'}))
    assert not text_is_too_deep(json.dumps([[1]] * 500))
    assert text_is_too_deep("[" * (MAX_DEPTH + 1)) and not text_is_too_deep("plain words")
