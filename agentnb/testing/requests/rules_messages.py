"""Rules of the Messages API, with its error messages. The rules for message content are in `message_blocks`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import JsonObject
from agentnb.testing.memory import Memory
from agentnb.testing.requests.message_blocks import block_problems, blocks_of
from agentnb.testing.requests.rules_schemas import of_anthropic
from agentnb.testing.requests.value_checks import extra, find_repeated, is_whole_number, missing, names

FIELDS = names(
    "max_tokens messages model cache_control container context_management diagnostics inference_geo mcp_servers metadata "
    "output_config service_tier speed "
    "stop_sequences stream system thinking tool_choice tools user_profile_id workspace_id"
)
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
WITHOUT_SAMPLING = "2026-10-21"
"""Version of the API from which requests must not have sampling parameters."""
TOOL_FIELDS = names(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples input_schema name strict type"
)
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
THINKING = {"adaptive": {"display"}, "enabled": {"budget_tokens", "display"}, "disabled": set(), "between_tools": {"display"}}
CHOICES = {"auto": {"disable_parallel_tool_use"}, "any": {"disable_parallel_tool_use"}, "none": set()}
CHOICES["tool"] = {"name", "disable_parallel_tool_use"}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
MAX_MARKS = 4

Turn = tuple[str, list[tuple[str, JsonObject]]]
"""A role, and the blocks of consecutive messages with that role, each with its location."""


def problems(body: JsonObject, memory: Memory, version: str | None) -> list[str]:
    """Return the problems of this body; empty if it is valid."""
    if version is None:
        return ["anthropic-version: header is required"]
    first_problems = [*_top_level(body, version), *_settings(body)]
    if first_problems:
        return first_problems
    first_problems = [*_tools(body), *_messages(body, memory)]
    if first_problems:
        return first_problems
    turns = _turns(body["messages"])
    return [*_order(turns, memory), *_tool_pairing(turns), *_marks(body)]


def _top_level(body: JsonObject, version: str) -> Iterator[str]:
    for name in missing(body, ("max_tokens", "messages", "model")):
        yield f"{name}: Field required"
    if body.get("model") == "":
        yield "model: String should have at least 1 character"
    allowed = FIELDS if version >= WITHOUT_SAMPLING else FIELDS | SAMPLING
    for name in extra(body, allowed):
        yield f"{name}: `{name}` is not supported" if name in SAMPLING else f"{name}: Extra inputs are not permitted"
    if not is_whole_number(body.get("max_tokens", 1)):
        yield "max_tokens: Input should be greater than or equal to 1"
    if not isinstance(body.get("messages", []), list):
        yield "messages: Input should be a valid list"
    elif body.get("messages") == []:
        yield "messages: at least one message is required"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"


def _settings(body: JsonObject) -> Iterator[str]:
    thinking, choice, output = body.get("thinking"), body.get("tool_choice"), body.get("output_config", {})
    if thinking is not None:
        yield from _thinking(thinking, body.get("max_tokens"))
    if choice is not None:
        yield from _tool_choice(choice, body.get("tools") or [], thinking)
    for name in extra(output, ("effort", "format")):
        yield f"output_config.{name}: Extra inputs are not permitted"
    if output.get("effort", "low") not in EFFORTS:
        yield f"output_config.effort: Input should be one of {EFFORTS}"
    form = output.get("format")
    if form is not None and (form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict)):
        yield "output_config.format: Input should be a JSON schema format"


def _thinking(thinking: Any, max_tokens: Any) -> Iterator[str]:
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in THINKING:
        yield f"thinking: Input tag '{kind}' does not match any of the expected tags: {', '.join(THINKING)}"
        return
    for name in extra(thinking, {"type", *THINKING[kind]}):
        yield f"thinking.{kind}.{name}: Extra inputs are not permitted"
    budget = thinking.get("budget_tokens")
    if kind == "enabled" and not is_whole_number(budget, 1024):
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif kind == "enabled" and is_whole_number(max_tokens) and budget >= max_tokens:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


def _tool_choice(choice: Any, tools: list[Any], thinking: Any) -> Iterator[str]:
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in CHOICES:
        yield f"tool_choice: Input tag '{kind}' does not match any of the expected tags: {', '.join(CHOICES)}"
        return
    for name in extra(choice, {"type", *CHOICES[kind]}):
        yield f"tool_choice.{kind}.{name}: Extra inputs are not permitted"
    if not tools:
        yield "tool_choice may only be specified while providing tools."
    elif kind == "tool" and choice.get("name") not in [tool.get("name") for tool in tools]:
        yield f"Tool '{choice.get('name')}' not found in provided tools"
    if kind in ("any", "tool") and isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"):
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _tools(body: JsonObject) -> Iterator[str]:
    tools = body.get("tools", [])
    for index, tool in enumerate(tools):
        if tool.get("type", "custom") != "custom":
            continue  # a tool of the provider's own
        at = f"tools.{index}.custom"
        for name in extra(tool, TOOL_FIELDS):
            yield f"{at}.{name}: Extra inputs are not permitted"
        if not TOOL_NAME.fullmatch(str(tool.get("name", ""))):
            yield f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        yield from of_anthropic(f"{at}.input_schema", tool.get("input_schema"))
        if not isinstance(tool.get("description", ""), str):
            yield f"{at}.description: Input should be a valid string"
    for _ in find_repeated(tool["name"] for tool in tools if "name" in tool):
        yield "tools: Tool names must be unique."


def _messages(body: JsonObject, memory: Memory) -> Iterator[str]:
    for index, block in enumerate(blocks_of(body.get("system")) if body.get("system") is not None else []):
        if block.get("type") != "text":
            yield f"system.{index}.type: Input should be 'text'"
        else:
            yield from block_problems(f"system.{index}", "system", block, memory)
    for index, message in enumerate(body["messages"]):
        at = f"messages.{index}"
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            yield f"{at}.role: Input should be 'user' or 'assistant'"
            continue
        for name in extra(message, ("role", "content")):
            yield f"{at}.{name}: Extra inputs are not permitted"
        content = message.get("content")
        if not isinstance(content, str | list):
            yield f"{at}.content: Input should be a valid list"
        elif not content:
            yield f"{at}: all messages must have non-empty content except for the optional final assistant message"
        else:
            blocks = blocks_of(content)
            for position, block in enumerate(blocks):
                yield from block_problems(f"{at}.content.{position}", message["role"], block, memory)
            if message["role"] == "assistant" and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
                yield f"{at}: The final block in an assistant message cannot be `thinking`."


def _turns(messages: list[JsonObject]) -> list[Turn]:
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        if not turns or turns[-1][0] != message["role"]:
            turns.append((message["role"], []))
        blocks = enumerate(blocks_of(message["content"]))
        turns[-1][1].extend((f"messages.{index}.content.{position}", block) for position, block in blocks)
    return turns


def _order(turns: list[Turn], memory: Memory) -> Iterator[str]:
    if turns[0][0] != "user":
        yield 'messages: first message must use the "user" role'
    role, blocks = turns[-1]
    if role == "assistant" and not memory.was_paused([block for _, block in blocks]):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _tool_pairing(turns: list[Turn]) -> Iterator[str]:
    """Check that every call is answered once, in the next turn, before any other content in it."""
    calls = [block["id"] for _, blocks in turns for _, block in blocks if block["type"] == "tool_use"]
    for _ in find_repeated(calls):
        yield "messages: `tool_use` ids must be unique"
    asked: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        if role == "user":
            yield from _answers(asked, blocks)
        asked = [block["id"] for _, block in blocks if block["type"] == "tool_use"]
        if asked and index == len(turns) - 1:
            yield _unanswered_problem(blocks[0][0], asked)


def _answers(asked: list[str], blocks: list[tuple[str, JsonObject]]) -> Iterator[str]:
    answered = [block["tool_use_id"] for _, block in blocks if block["type"] == "tool_result"]
    first = 0
    while first < len(blocks) and blocks[first][1]["type"] == "tool_result":
        first += 1
    if unanswered := [call for call in asked if call not in answered[:first]]:
        yield _unanswered_problem(blocks[0][0], unanswered)
    for at, block in blocks:
        if block["type"] == "tool_result" and block["tool_use_id"] not in asked:
            yield (
                f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {block['tool_use_id']}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
    for call in find_repeated(answered):
        yield f"{blocks[0][0]}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call}"
    if not unanswered and len(answered) > first:
        yield f"{blocks[first][0]}: `tool_result` blocks must come before all other content"


def _unanswered_problem(at: str, calls: list[str]) -> str:
    message = at.rsplit(".content", 1)[0]
    return (
        f"{message}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(calls)}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _marks(body: JsonObject) -> Iterator[str]:
    """Check the prompt cache markers, in request order."""
    blocks = [*body.get("tools", []), *blocks_of(body.get("system") or [])]
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            inner = block.get("content") if block["type"] == "tool_result" else None
            blocks += [*(inner if isinstance(inner, list) else []), block]
    marks = [mark for block in [*blocks, body] if (mark := block.get("cache_control")) is not None]
    if len(marks) > MAX_MARKS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    if any(
        mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h") or extra(mark, ("type", "ttl"))
        for mark in marks
    ):
        yield "cache_control: Input should be {'type': 'ephemeral', 'ttl': '5m' or '1h'}"
    lives = [mark.get("ttl", "5m") for mark in marks]
    if lives != sorted(lives):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
