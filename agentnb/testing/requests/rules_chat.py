"""Rules of the Chat Completions API, with its error messages; with ``minimal``, those of a small compatible server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.core.messages import JsonObject
from agentnb.testing.memory import Memory
from agentnb.testing.replies.reply_format import SIGNED
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

MINIMAL = names("model messages tools stream stream_options max_tokens temperature seed stop response_format")
FIELDS = MINIMAL | names(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens metadata modalities moderation "
    "n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention "
    "reasoning_effort safety_identifier seed service_tier store tool_choice top_logprobs top_p user verbosity "
    "web_search_options"
)
ROLES = {
    "system": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal", "audio", "function_call"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
THINKING = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
"""Thinking fields, which most compatible servers accept back."""
MINIMAL_ROLES = {"assistant": ROLES["assistant"] | THINKING}
NO_TRAITS: Mapping[str, Any] = {}
DEVELOPER = {"developer": ROLES["system"]}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_ID = 40
SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")


def problems(body: JsonObject, minimal: bool, traits: Mapping[str, Any] = NO_TRAITS, memory: Memory | None = None) -> list[str]:
    """Return the problems of this body; empty if it is valid. ``traits``: the traits of the imitated server."""
    general = [*_top_level(body, _known_fields(minimal, traits)), *_settings(body), *_tools(body)]
    messages = body.get("messages")
    if not messages or not isinstance(messages, list):
        return general
    roles = ROLES | (DEVELOPER if not minimal else MINIMAL_ROLES if traits.get("returned") != "never" else {})
    roles |= {"assistant": roles["assistant"] | {SIGNED}} if traits.get("signs") else {}
    message_problems = [
        problem for index, message in enumerate(messages) for problem in _message(f"messages[{index}]", message, roles)
    ]
    return [*general, *(message_problems or [*_tool_pairing(messages), *_of_its_own(messages, traits, memory)])]


def _known_fields(minimal: bool, traits: Mapping[str, Any]) -> frozenset[str]:
    """Return the known fields. Most servers accept all fields of the API, or ignore those they do not know."""
    if not minimal or not traits:
        return MINIMAL if minimal else FIELDS
    less = {
        "stream_options": not traits.get("stream_options", True),
        "parallel_tool_calls": not traits.get("parallel"),
        "max_completion_tokens": "length_limit" not in traits,
    }
    return frozenset(traits.get("knows", FIELDS)) - {name for name, is_less in less.items() if is_less} - {*traits["without"]}


def _of_its_own(messages: list[JsonObject], traits: Mapping[str, Any], memory: Memory | None) -> Iterator[str]:
    """Yield the problems that only this server reports."""
    before, field = "", traits.get("returns", "")
    for index, message in enumerate(messages):
        role = message["role"]
        if traits.get("alternating") and role == "user" and before in ("user", "tool"):
            yield f"Unexpected role '{role}' after role '{before}'"
        if traits.get("system", "anywhere") != "anywhere" and role == "system" and index:
            yield f"Unexpected role '{role}' after role '{before}'"
        if traits.get("short_ids"):
            for call in message.get("tool_calls") or ():
                if not SHORT_ID.fullmatch(call["id"]):
                    yield f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
        calls = message.get("tool_calls") or ()
        led = {memory.thought_before(call["id"]): call for call in calls} if memory else {}
        if field and field in led and field not in message:
            yield f"The `{field}` of the reply must be passed back to the API."
        if SIGNED not in led.get("signature", {SIGNED: 1}):
            yield "Function call is missing a thought_signature in functionCall parts."
        before = role


def _top_level(body: JsonObject, known: frozenset[str]) -> Iterator[str]:
    for name in missing(body, ("model", "messages")):
        yield f"Missing required parameter: '{name}'."
    if body.get("model") == "":
        yield "you must provide a model parameter"
    for name in extra(body, known):
        yield f"Unknown parameter: '{name}'."
    messages = body.get("messages")
    if messages == []:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
    elif messages is not None and not isinstance(messages, list):
        yield "Invalid type for 'messages': expected an array of objects."
    if not isinstance(body.get("stream") or False, bool):
        yield "Invalid type for 'stream': expected a boolean."


def _settings(body: JsonObject) -> Iterator[str]:
    for name in ("max_tokens", "max_completion_tokens"):
        if not is_whole_number(body.get(name, 1)):
            yield f"Invalid '{name}': integer below minimum value. Expected a value >= 1."
    if "max_tokens" in body and "max_completion_tokens" in body:
        yield "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    options = body.get("stream_options")
    if options is not None and body.get("stream") is not True:
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    for name in extra(options or {}, ("include_usage", "include_obfuscation")):
        yield f"Unknown parameter: 'stream_options.{name}'."
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in body and not body.get("tools"):
            yield f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        chosen = choice.get("function", {}).get("name")
        if chosen not in [tool.get("function", {}).get("name") for tool in body.get("tools", [])]:
            yield f"Invalid value for 'tool_choice': tool '{chosen}' is not specified in 'tools'."
    elif not isinstance(choice, dict) and choice not in (None, "auto", "none", "required"):
        yield f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."


def _tools(body: JsonObject) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        return
    if not tools:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    names = []
    for index, tool in enumerate(tools):
        at, function = f"tools[{index}]", tool.get("function")
        if isinstance(kind := tool.get("type"), str) and kind != "function":
            continue  # a tool of the server's own
        if tool.get("type") != "function" or not isinstance(function, dict) or extra(tool, ("type", "function")):
            yield f"Invalid '{at}': expected an object with 'type' and 'function' only."
            continue
        for name in extra(function, ("name", "description", "parameters", "strict")):
            yield f"Unknown parameter: '{at}.function.{name}'."
        yield from check_name(f"{at}.function.name", function.get("name"))
        if "parameters" in function:
            yield from of_openai(function.get("name"), function["parameters"])
        names.append(function.get("name"))
    for name in find_repeated(names):
        yield f"Invalid 'tools': function names must be unique, found '{name}' twice."


def check_name(at: str, name: Any) -> Iterator[str]:
    """Yield a problem if a function name is invalid."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"Invalid '{at}': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]{{1,64}}$'."


def _message(at: str, message: Any, roles: dict[str, frozenset[str]]) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in roles:
        supported = ", ".join(f"'{name}'" for name in roles)
        yield f"Invalid value: '{role}'. Supported values are: {supported}. ({at}.role)"
        return
    for name in extra(message, roles[role]):
        yield f"Unknown parameter: '{at}.{name}'."
    content = message.get("content")
    if role == "assistant":
        yield from _assistant(at, message, roles[role] & {SIGNED})
    elif content is None or (content == "" and role != "tool"):
        yield f"Invalid value for '{at}.content': expected a string with something in it."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"Missing parameter '{at}.tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
    if content is not None and not isinstance(content, str):
        yield from _parts(f"{at}.content", content, pictures=role == "user")


def _parts(at: str, parts: Any, pictures: bool) -> Iterator[str]:
    if not isinstance(parts, list) or not parts:
        yield f"Invalid '{at}': expected a string or an array with minimum length 1."
        return
    for index, part in enumerate(parts):
        path, kind = f"{at}[{index}]", part.get("type") if isinstance(part, dict) else None
        if kind not in (("text", "image_url") if pictures else ("text",)):
            yield f"Invalid value: '{kind}'. Supported values are: 'text'{' and image_url' if pictures else ''}. ({path}.type)"
            continue
        for name in extra(part, ("type", kind, "prompt_cache_breakpoint")):
            yield f"Unknown parameter: '{path}.{name}'."
        if kind == "text" and not (isinstance(part.get("text"), str) and part["text"]):
            yield f"Invalid '{path}.text': empty string. Expected a string with minimum length 1."
        if kind == "image_url":
            yield from _picture(path, part.get("image_url"))


def _picture(at: str, image: Any) -> Iterator[str]:
    if not isinstance(image, dict) or extra(image, ("url", "detail")):
        yield f"Invalid type for '{at}.image_url': expected an object with 'url' and 'detail'."
    elif not is_picture(image.get("url")):
        yield f"Invalid '{at}.image_url.url': you uploaded an unsupported image, or no image."


def _assistant(at: str, message: JsonObject, more: frozenset[str]) -> Iterator[str]:
    calls = message.get("tool_calls")
    if not message.get("content") and not message.get("refusal") and calls is None:
        yield f"Invalid assistant message: content or tool_calls must be set. ({at})"
    if calls == []:
        yield f"Invalid '{at}.tool_calls': empty array. Expected an array with minimum length 1."
    for index, call in enumerate(calls or []):
        path, function = f"{at}.tool_calls[{index}]", call.get("function")
        if call.get("type") != "function" or not isinstance(function, dict) or extra(call, ("id", "type", "function", *more)):
            yield f"Invalid '{path}': expected an object with 'id', 'type' and 'function' only."
            continue
        if not isinstance(call.get("id"), str) or not 0 < len(call["id"]) <= LONGEST_ID:
            yield f"Invalid '{path}.id': expected a string with maximum length {LONGEST_ID}."
        for name in extra(function, ("name", "arguments")):
            yield f"Unknown parameter: '{path}.function.{name}'."
        yield from check_name(f"{path}.function.name", function.get("name"))
        if not is_object_text(function.get("arguments")):
            yield f"Invalid '{path}.function.arguments': expected a string with a JSON object."
    for name in find_repeated(call.get("id") for call in calls or []):
        yield f"Duplicate value for 'tool_call_id' of '{name}' in {at}."


def _tool_pairing(messages: list[JsonObject]) -> Iterator[str]:
    """Check that every call is answered once, directly after its message."""
    asked: set[str] = set()
    answered: list[str] = []
    for index, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in asked:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    f"'tool_calls'. (messages[{index}])"
                )
            answered.append(message["tool_call_id"])
            continue
        if unanswered := sorted(asked - set(answered)):
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
                f"The following tool_call_ids did not have response messages: {', '.join(unanswered)}"
            )
        for name in find_repeated(answered):
            yield f"Duplicate value for 'tool_call_id' of '{name}' in message[{index - 1}]."
        asked, answered = {call["id"] for call in message.get("tool_calls") or []}, []
