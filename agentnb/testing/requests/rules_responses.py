"""Rules of the Responses API, with its error messages, for a client that keeps the conversation itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import JsonObject
from agentnb.testing.ids import open_seal
from agentnb.testing.memory import Memory
from agentnb.testing.replies.write_responses import follower
from agentnb.testing.requests.rules_chat import check_name
from agentnb.testing.requests.rules_schemas import of_openai
from agentnb.testing.requests.value_checks import (
    extra,
    find_repeated,
    is_object_text,
    is_picture,
    is_whole_number,
    missing,
    names,
)

FIELDS = names(
    "access_programs background context_management conversation image include input instructions max_output_tokens "
    "max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options "
    "temperature text tool_choice tools top_logprobs top_p truncation user"
)
ITEMS = {
    "message": (("role", "content"), {"type", "id", "status", "phase"}),
    "function_call": (("call_id", "name", "arguments"), {"type", "id", "status", "caller", "namespace", "async"}),
    "function_call_output": (("call_id", "output"), {"type", "id", "status", "caller", "name", "namespace"}),
    "reasoning": (("id", "summary", "encrypted_content"), {"type", "content", "status"}),
}
"""Required and optional fields of an item."""
PARTS = {
    "input_text": {"type", "text", "prompt_cache_breakpoint"},
    "input_image": {"type", "image_url", "detail", "file_id", "prompt_cache_breakpoint"},
    "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"},
}
WHO = ("assistant", "system", "developer", "user")
SENT = ("input_text", "input_image")
ANSWERED = ("output_text", "refusal")
PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs", "function_call_output": "fc"}
LONGEST_ID = 64
TOOL_FIELDS = names("allowed_callers async defer_loading description name output_schema parameters strict type")


def problems(body: JsonObject, memory: Memory) -> list[str]:
    """Return the problems of this body; empty if it is valid."""
    item_problems = [*_top_level(body), *_tools(body)]
    items = body.get("input")
    if item_problems or isinstance(items, str):
        return item_problems
    assert isinstance(items, list)
    for index, item in enumerate(items):
        item_problems += [] if memory.knows(item) else _item(f"input[{index}]", item)
    return item_problems or [*_tool_pairing(items), *_thoughts(items, memory)]


def _top_level(body: JsonObject) -> Iterator[str]:
    for name in missing(body, ("model", "input")):
        yield f"Missing required parameter: '{name}'."
    if body.get("model") == "":
        yield "you must provide a model parameter"
    for name in extra(body, FIELDS):
        yield f"Unknown parameter: '{name}'."
    if not isinstance(body.get("input", ""), str | list) or body.get("input") in ([], ""):
        yield "Invalid 'input': expected a string or an array with something in it."
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            yield f"Previous response with id '{body[name]}' not found. (this server keeps nothing)"
    if not isinstance(body.get("store") or False, bool):
        yield "Invalid type for 'store': expected a boolean."
    if not is_whole_number(body.get("max_output_tokens", 16), 16):
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."


def _tools(body: JsonObject) -> Iterator[str]:
    tools = body.get("tools") or []
    for index, tool in enumerate(tools):
        at = f"tools[{index}]"
        if tool.get("type") != "function":
            if not isinstance(tool.get("type"), str):
                yield f"Missing required parameter: '{at}.type'."
            continue
        for name in extra(tool, TOOL_FIELDS):
            yield f"Unknown parameter: '{at}.{name}'."
        yield from check_name(f"{at}.name", tool.get("name"))
        yield from of_openai(tool.get("name"), tool.get("parameters"))
    names = [tool["name"] for tool in tools if "name" in tool]
    for name in find_repeated(names):
        yield f"Invalid 'tools': function names must be unique, found '{name}' twice."
    choice = body.get("tool_choice")
    if choice is not None and not tools:
        yield "Invalid value for 'tool_choice': only allowed when 'tools' are specified."
    if isinstance(choice, dict) and choice.get("type") == "function" and choice.get("name") not in names:
        yield f"Tool choice '{choice.get('name')}' not found in 'tools' parameter."
    elif not isinstance(choice, dict) and choice not in (None, "auto", "none", "required"):
        yield f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."


def _item(at: str, item: Any) -> Iterator[str]:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind not in ITEMS:
        yield f"Invalid value: '{kind}'. Supported values are: {', '.join(repr(name) for name in ITEMS)}. ({at}.type)"
        return
    required, optional = ITEMS[kind]
    wrong = [f"Missing required parameter: '{at}.{name}'." for name in missing(item, required)]
    wrong += [f"Unknown parameter: '{at}.{name}'." for name in extra(item, {*required, *optional})]
    if not str(item.get("id") or PREFIXES[kind]).startswith(PREFIXES[kind]):
        wrong.append(f"Invalid '{at}.id': '{item['id']}'. Expected an ID that begins with '{PREFIXES[kind]}'.")
    if len(str(item.get("call_id", ""))) > LONGEST_ID:
        wrong.append(f"Invalid '{at}.call_id': string too long. Expected a string with maximum length {LONGEST_ID}.")
    if wrong:
        yield from wrong
    elif kind == "message":
        yield from _message(at, item)
    elif kind == "function_call":
        yield from check_name(f"{at}.name", item["name"])
        if not is_object_text(item["arguments"]):
            yield f"Invalid '{at}.arguments': expected a string with a JSON object."
    elif kind == "function_call_output" and not isinstance(item["output"], str):
        yield from _parts(f"{at}.output", item["output"], SENT)


def _message(at: str, item: JsonObject) -> Iterator[str]:
    if item["role"] not in WHO:
        yield f"Invalid value: '{item['role']}'. Supported values are: {', '.join(WHO)}. ({at}.role)"
    elif item["content"] == "":
        yield f"Invalid '{at}.content': empty string."
    elif not isinstance(item["content"], str):
        yield from _parts(f"{at}.content", item["content"], ANSWERED if item["role"] == "assistant" else SENT)


def _parts(at: str, parts: Any, kinds: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(parts, list) or not parts:
        yield f"Invalid '{at}': expected a string or an array with minimum length 1."
        return
    for index, part in enumerate(parts):
        path, kind = f"{at}[{index}]", part.get("type") if isinstance(part, dict) else None
        if kind not in kinds:
            yield f"Invalid value: '{kind}'. Supported values are: {', '.join(repr(name) for name in kinds)}. ({path}.type)"
            continue
        for name in extra(part, PARTS[kind]):
            yield f"Unknown parameter: '{path}.{name}'."
        if kind == "input_image" and not is_picture(part.get("image_url")):
            yield f"Invalid '{path}.image_url': expected a valid URL of an image."
        if kind != "input_image" and not part.get("refusal" if kind == "refusal" else "text"):
            yield f"Invalid '{path}': empty string. Expected a string with minimum length 1."


def _tool_pairing(items: list[JsonObject]) -> Iterator[str]:
    """Check that every call is answered once, after the call and before the next message from another role."""
    open_calls: list[str] = []
    called: list[str] = []
    answered: list[str] = []
    for item in [*items, {"role": "end"}]:
        kind = item.get("type", "message")
        if kind == "function_call":
            open_calls.append(item["call_id"])
            called.append(item["call_id"])
        elif kind == "function_call_output":
            answered.append(item["call_id"])
            if item["call_id"] in open_calls:
                open_calls.remove(item["call_id"])
            elif item["call_id"] not in called:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
        elif kind == "message" and item["role"] != "assistant":
            for call in open_calls:
                yield f"No tool output found for function call {call}."
            open_calls = []
    for name in find_repeated(called):
        yield f"Duplicate item found with call_id {name}. Remove duplicate items from your input and try again."
    for name in find_repeated(answered):
        yield f"Duplicate function call output found for call_id {name}."
    for name in find_repeated(item["id"] for item in items if item.get("id")):
        yield f"Duplicate item found with id {name}. Remove duplicate items from your input and try again."


def _thoughts(items: list[JsonObject], memory: Memory) -> Iterator[str]:
    """Check that reasoning is sent back unchanged, before the item it led to, and that this item is preceded by it."""
    before: str | None = None
    for item, following in zip(items, [*items[1:], None], strict=False):
        needed = memory.thought_before(item.get("id"))
        if needed is not None and needed != before:
            subject = f"Item '{item['id']}' of type '{item.get('type', 'message')}'"
            yield f"{subject} was provided without its required 'reasoning' item: '{needed}'."
        before = item.get("id") if item.get("type") == "reasoning" else None
        if before is None:
            continue
        seal = open_seal(item["encrypted_content"])
        if seal is None or seal[0] != before:
            yield f"The encrypted content for item {before} could not be verified."
        elif seal[1] != item["summary"]:
            yield f"Item '{before}' of type 'reasoning' was changed since it was sent."
        elif following is None or seal[2] != follower(following):
            yield f"Item '{before}' of type 'reasoning' was provided without its required following item."
