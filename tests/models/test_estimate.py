"""Estimated token counts."""

from __future__ import annotations

from msgspec.structs import replace

from agentnb.core.messages import Image, Message, Text, ToolResult, user
from agentnb.core.request import Request, ToolSpec
from agentnb.models.estimate import tokens_of_message, tokens_of_request, tokens_of_text, tokens_of_tools


def test_english_text_has_about_four_characters_per_token() -> None:
    text = "The quick brown fox jumps over the lazy dog and runs away into the deep dark forest. " * 10
    assert len(text) / 5 < tokens_of_text(text) < len(text) / 3


def test_empty_text_has_no_tokens() -> None:
    assert (tokens_of_text(""), tokens_of_tools(())) == (0, 0)


def test_picture_estimate_is_independent_of_its_bytes() -> None:
    small, large = (Message("user", (Text("see"), Image("image/png", b"x" * size))) for size in (10, 100_000))
    assert tokens_of_message(small) == tokens_of_message(large) > 500


def test_request_estimate_is_the_sum_of_its_parts() -> None:
    tools = (ToolSpec("add", "Adds two numbers.", {"type": "object"}),)
    messages = [user("Add one and two."), user("Now.")]
    whole = tokens_of_request(Request("Be brief.", messages, tools))
    assert whole == tokens_of_text("Be brief.") + tokens_of_tools(tools) + sum(map(tokens_of_message, messages))
    assert tokens_of_tools(tools) > 0
    assert tokens_of_tools((replace(tools[0], effects=("network", "write")),)) == tokens_of_tools(tools)  # they are not sent


def test_picture_in_a_result_counts_the_same_at_any_size() -> None:
    small, large = (
        Message("tool", (ToolResult("c", "look", (Text("see"), Image("image/png", b"x" * size))),)) for size in (10, 100_000)
    )
    assert tokens_of_message(small) == tokens_of_message(large) > 500
