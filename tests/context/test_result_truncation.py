"""Large results: whole in the log, truncated for the model, with a handle to read on."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_runs import bare

from agentnb import Agent, Store, ToolCall
from agentnb.context.defaults import HEAD, RESULT_CHARACTERS, TAIL
from agentnb.context.request_history import sent_requests
from agentnb.context.result_truncation import truncate_results
from agentnb.core.messages import Image, Message, Text, ToolResult
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import InvalidTool
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.read_result import READ_TOOL

LONG = "".join(f"line {number} of it\n" for number in range(3_000))
PICTURE = Image("image/png", b"x")


def result(*parts: Any, call_id: str = "c1", **fields: Any) -> ToolResult:
    return ToolResult(call_id, "look", tuple(Text(part) if isinstance(part, str) else part for part in parts), **fields)


def seen(request: Request) -> str:
    """Return the result at the end of a request."""
    part = request.messages[-1].parts[0]
    assert isinstance(part, ToolResult)
    return part.text


@pytest.mark.req("R0.76")
def test_result_of_8192_characters_is_sent_in_full() -> None:
    assert RESULT_CHARACTERS == 8_192
    whole = Message("tool", (result("x" * 8_192),))
    assert truncate_results(whole, RESULT_CHARACTERS) is whole
    cut = truncate_results(Message("tool", (result("x" * 8_193),)), RESULT_CHARACTERS)
    assert len(cut.parts[0].text) < 8_192  # type: ignore[union-attr]


@pytest.mark.req("R0.76")
def test_truncated_result_has_start_end_length_and_reading_call() -> None:
    (cut,) = truncate_results(Message("tool", (result(LONG, is_error=True, error_code="boom"),)), 8_192).parts
    assert isinstance(cut, ToolResult)
    assert cut.text.startswith(LONG[:HEAD]) and cut.text.endswith(LONG[-TAIL:])
    assert f"{len(LONG):,} characters" in cut.text
    assert f'{READ_TOOL}(handle="c1", offset={HEAD})' in cut.text
    assert (cut.call_id, cut.name, cut.is_error, cut.error_code) == ("c1", "look", True, "boom")


def test_pictures_remain_and_only_long_results_are_truncated() -> None:
    long, short = result("a" * 5_000, PICTURE, "b" * 5_000), result("short", call_id="c2")
    cut, other = truncate_results(Message("tool", (long, short)), 8_192).parts
    assert isinstance(cut, ToolResult)
    assert [type(part) for part in cut.parts] == [Text, Image]
    assert other is short


def test_truncated_result_is_shorter_than_the_maximum(subtests: pytest.Subtests) -> None:
    for most in [1_000, 2_000, 8_192, 100_000]:
        with subtests.test(most=most):
            (cut,) = truncate_results(Message("tool", (result("x" * (most + 1)),)), most).parts
            assert len(cut.text) < most  # type: ignore[union-attr]


def big() -> str:
    """Gives much."""
    return LONG


def read(offset: int, length: int) -> Any:
    """Return a call that reads on in the previous result."""

    def call(request: Request) -> ToolCall:
        part = request.messages[-1].parts[0]
        assert isinstance(part, ToolResult)
        handle = part.text.partition('handle="')[2].partition('"')[0]
        return ToolCall(READ_TOOL, {"handle": handle, "offset": offset, "length": length})

    return call


def names(request: Request) -> list[str]:
    return [tool.name for tool in request.tools]


@pytest.mark.req("R0.76")
def test_full_result_is_logged_and_readable_in_pieces() -> None:
    text, pieces = "", []
    model = ScriptedModel([ToolCall("big"), read(3_000, 8_000), "Done."])
    run = bare(model, [big]).run_sync("go")
    assert run.rounds[0].results[0].text == LONG
    assert len(seen(model.requests[1])) < 8_192
    piece = run.rounds[1].results[0].text
    assert piece.partition("\n")[2] == LONG[3_000:11_000]
    assert seen(model.requests[2]) == piece

    handle = run.rounds[0].calls[0].id
    offsets = range(0, len(LONG), 8_000)
    again = ScriptedModel(
        [*[ToolCall(READ_TOOL, {"handle": handle, "offset": at, "length": 8_000}) for at in offsets], "Done."]
    )
    following = bare(again, [big]).run_sync("read on", continue_from=run)
    pieces = [round.results[0].text for round in following.rounds[:-1]]
    text = "".join(piece.partition("\n")[2] for piece in pieces)
    assert text == LONG


@pytest.mark.req("R0.76")
def test_piece_of_a_result_is_never_truncated_again() -> None:
    model = ScriptedModel([ToolCall("big"), read(0, 10**9), "Done."])
    bare(model, [big]).run_sync("go")
    assert READ_TOOL not in seen(model.requests[2])
    assert 8_000 < len(seen(model.requests[2])) <= 8_192


@pytest.mark.req("R0.76", "KX.7")
def test_reading_tool_is_offered_from_the_first_truncation() -> None:
    model = ScriptedModel([ToolCall("small"), ToolCall("big"), ToolCall("small", {"x": 2}), "Done."])

    def small(x: int = 1) -> str:
        """Gives little."""
        return "little"

    run = bare(model, [small, big]).run_sync("go")
    assert [names(request) for request in model.requests] == [["small", "big"]] * 2 + [["small", "big", READ_TOOL]] * 2
    following = ScriptedModel(["Yes."])
    bare(following, [small, big]).run_sync("more", continue_from=run)
    assert names(following.requests[0]) == ["small", "big", READ_TOOL]


@pytest.mark.req("R0.76")
def test_nothing_is_truncated_when_truncation_is_disabled() -> None:
    model = ScriptedModel([ToolCall("big"), "Done."])
    run = bare(model, [big], history="full").run_sync("go")
    assert seen(model.requests[1]) == LONG and names(model.requests[1]) == ["big"]
    assert run.status == "completed"


@pytest.mark.req("R0.76")
def test_result_handle_is_valid_after_loading_the_log(tmp_path: Any) -> None:
    store = Store(tmp_path / "runs")
    first = bare(ScriptedModel([ToolCall("big"), "Done."]), [big]).run_sync("go", store=store)
    handle = first.rounds[0].calls[0].id
    model = ScriptedModel([ToolCall(READ_TOOL, {"handle": handle, "offset": len(LONG) - 10}), "Done."])
    run: Run = bare(model, [big]).run_sync("more", store=store, continue_from=store.load(first.id))
    assert run.rounds[0].results[0].text.endswith(f", the end]\n{LONG[-10:]}")
    assert store.load(run.id) == run


@pytest.mark.req("R0.76")
def test_reading_tool_name_is_reserved_while_truncating() -> None:
    def read_tool_result() -> str:
        """Mine."""
        return "mine"

    with pytest.raises(InvalidTool, match=r'history="full"'):
        Agent(ScriptedModel([]), tools=[read_tool_result])
    Agent(ScriptedModel([]), tools=[read_tool_result], history="full")


@pytest.mark.req("R0.76")
def test_user_tool_may_take_the_reserved_name_without_truncation() -> None:
    def read_tool_result(n: int = 0) -> str:
        """Mine."""
        return f"mine {n}"

    script = [ToolCall("big"), ToolCall(READ_TOOL, {"n": 1}), "Done."]
    for tools, told in (([big, read_tool_result], ["big", READ_TOOL]), ([read_tool_result, big], [READ_TOOL, "big"])):
        model = ScriptedModel(script)
        run = bare(model, tools, history="full").run_sync("go")
        assert [names(request) for request in model.requests] == [told] * 3
        assert model.requests[0].tools == run.tools
        assert run.rounds[1].results[0].text == "mine 1"
        assert [seen.request.tools for _, seen in sent_requests(run)] == [run.tools] * 3
