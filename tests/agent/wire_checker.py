"""What is wrong with the body of a request, by the providers' published rules.

A second judge beside the strict server's, written from the documentation alone: it shares no line with `agentnb.testing` or
with what makes the bodies. It asks for what agentnb promises besides: sides that alternate, and ids that no conversation
has twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Body = dict[str, Any]
Complaints = Iterator[str]

ID = re.compile(r"[A-Za-z0-9_-]+")
FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_CACHE_MARKS = 4


def complaints(wire: str, body: Body) -> list[str]:
    """What is wrong with the body of a request on this wire: ``messages``, ``chat`` or ``responses``; empty if nothing is."""
    return list(_JUDGES[wire](body))


# What all three ask for


def _said(text: Any) -> bool:
    return isinstance(text, str) and text.strip() != ""


def _positive(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def _json_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _twice(values: list[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


def _tools(tools: Any, names: list[Any], schemas: list[Any]) -> Complaints:
    if not isinstance(tools, list) or not tools:
        yield "tools is there and holds none"
    for name in names:
        if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
            yield f"{name!r} is no name of a tool"
    for name in _twice(names):
        yield f"two tools are called {name!r}"
    for name, schema in zip(names, schemas, strict=True):
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"the tool {name!r} has no schema of an object"


class _Pairs:
    """Calls and their answers, read in the order of the request. Between a reply and its answers nothing may stand."""

    def __init__(self) -> None:
        self._ever: set[str] = set()
        self._open: list[str] = []
        self._answered: set[str] = set()

    def call(self, call_id: Any, longest: int) -> Complaints:
        if not isinstance(call_id, str) or not ID.fullmatch(call_id) or len(call_id) > longest:
            yield f"{call_id!r} is no id of a call"
        elif call_id in self._ever:
            yield f"the id {call_id} is that of two calls"
        self._ever.add(str(call_id))
        self._open.append(str(call_id))

    def answer(self, call_id: Any) -> Complaints:
        if call_id in self._open:
            self._open.remove(call_id)
        elif call_id in self._answered:
            yield f"the call {call_id} is answered twice"
        elif call_id in self._ever:
            yield f"the answer to {call_id} stands too late"
        else:
            yield f"an answer to {call_id!r}, which nobody called"
        self._answered.add(str(call_id))

    def all_answered(self, before: str) -> Complaints:
        for call_id in self._open:
            yield f"the call {call_id} has no answer before {before}"
        self._open = []


# Anthropic: Messages

_OF_USER = frozenset({"text", "image", "document", "search_result", "tool_result"})
_OF_ASSISTANT = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_TOOL_BLOCKS = frozenset({"tool_use", "tool_result"})


def _messages(body: Body) -> Complaints:
    yield from _messages_head(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "there are no messages"
        return
    pairs, before = _Pairs(), "assistant"
    for place, message in enumerate(messages):
        role, where = message.get("role"), f"message {place}"
        if role not in ("user", "assistant"):
            yield f"{where} is of the role {role!r}"
            continue
        if role == before:
            yield f"{where} begins a conversation as the assistant" if place == 0 else f"{where} is a second one of the {role}"
        before = role
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list) or not content:
            yield f"{where} is empty"
            continue
        yield from _user_blocks(where, content, pairs) if role == "user" else _assistant_blocks(where, content, pairs)
    if before == "assistant":
        yield "the last message is the assistant's"
    yield from pairs.all_answered("the end")
    yield from _messages_need_tools(body)


def _messages_head(body: Body) -> Complaints:
    if not _said(body.get("model")):
        yield "no model is named"
    if not _positive(body.get("max_tokens")):
        yield "max_tokens is no number above 0"
    for name in ("temperature", "top_p", "top_k"):
        if name in body:
            yield f"{name} is refused since version 2026-10-21"
    system = body.get("system", "-")
    for text in [system] if isinstance(system, str) else [block.get("text") for block in system]:
        if not _said(text):
            yield "the system prompt holds an empty text"
    if "tools" in body:
        tools = body["tools"]
        yield from _tools(tools, [tool.get("name") for tool in tools], [tool.get("input_schema") for tool in tools])
    elif "tool_choice" in body:
        yield "tool_choice without tools"
    marks = json.dumps(body).count('"cache_control"')
    if marks > MAX_CACHE_MARKS:
        yield f"{marks} marks for the cache"


def _user_blocks(where: str, blocks: list[Body], pairs: _Pairs) -> Complaints:
    others = False
    for block in blocks:
        kind = block.get("type")
        if kind not in _OF_USER:
            yield f"{where} has a block {kind!r} of the user"
        if kind == "tool_result":
            if others:
                yield f"{where} has a result behind other content"
            yield from pairs.answer(block.get("tool_use_id"))
            yield from _result(where, block)
        else:
            others = True
        if kind == "text" and not _said(block.get("text")):
            yield f"{where} has an empty text"
    yield from pairs.all_answered(f"the end of {where}")


def _result(where: str, block: Body) -> Complaints:
    content, is_error = block.get("content"), block.get("is_error", False)
    if not isinstance(is_error, bool):
        yield f"{where} has a result of which is_error is {is_error!r}"
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        yield f"{where} has a result without content"
        return
    for inner in content:
        kind = inner.get("type")
        if kind not in ("text", "image"):
            yield f"{where} has a result with a block {kind!r}"
        if kind == "text" and not _said(inner.get("text")):
            yield f"{where} has a result with an empty text"
        if is_error and kind != "text":
            yield f"{where} has an error with a block {kind!r}"


def _assistant_blocks(where: str, blocks: list[Body], pairs: _Pairs) -> Complaints:
    yield from pairs.all_answered(where)
    for block in blocks:
        kind = block.get("type")
        if kind not in _OF_ASSISTANT:
            yield f"{where} has a block {kind!r} of the assistant"
        if kind == "text" and not _said(block.get("text")):
            yield f"{where} has an empty text"
        if kind == "thinking" and not _said(block.get("signature")):
            yield f"{where} has thinking without its signature"
        if kind == "tool_use":
            yield from pairs.call(block.get("id"), longest=256)
            if not isinstance(block.get("input"), dict):
                yield f"{where} has a call of which the input is no object"
            if not FUNCTION_NAME.fullmatch(str(block.get("name", ""))):
                yield f"{where} has a call of {block.get('name')!r}, which is no name"
    if blocks[-1].get("type") in ("thinking", "redacted_thinking"):
        yield f"{where} ends with thinking"


def _messages_need_tools(body: Body) -> Complaints:
    contents = [message["content"] for message in body["messages"] if isinstance(message.get("content"), list)]
    if not body.get("tools") and any(block.get("type") in _TOOL_BLOCKS for content in contents for block in content):
        yield "there are calls and no tools"


# OpenAI: Chat Completions


def _chat(body: Body) -> Complaints:
    yield from _chat_head(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "there are no messages"
        return
    pairs, before, begun = _Pairs(), "", False
    for place, message in enumerate(messages):
        role, where = message.get("role"), f"message {place}"
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield f"{where} is of the role {role!r}"
            continue
        if role in ("system", "developer") and place > 0:
            yield f"{where} is a system prompt in the middle"
        if role == before and role != "tool":
            yield f"{where} is a second one of the {role}"
        if role == "assistant" and not begun:
            yield f"{where} begins a conversation as the assistant"
        begun = begun or role == "user"
        if role == "tool":
            yield from pairs.answer(message.get("tool_call_id"))
        else:
            yield from pairs.all_answered(where)
        yield from _chat_message(where, role, message, pairs)
        before = role
    if before == "assistant":
        yield "the last message is the assistant's"
    if not begun:
        yield "nobody asks anything"
    yield from pairs.all_answered("the end")


def _chat_head(body: Body) -> Complaints:
    if not _said(body.get("model")):
        yield "no model is named"
    if "tools" in body:
        functions = [tool.get("function", {}) for tool in body["tools"]]
        yield from _tools(body["tools"], [one.get("name") for one in functions], [one.get("parameters") for one in functions])
    else:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                yield f"{name} without tools"
    if "stream_options" in body and body.get("stream") is not True:
        yield "stream_options without a stream"


def _chat_message(where: str, role: str, message: Body, pairs: _Pairs) -> Complaints:
    content, calls = message.get("content"), message.get("tool_calls")
    if role != "assistant" and (calls is not None or content is None):
        yield f"{where} has calls of the {role}" if calls is not None else f"{where} is empty"
    if content is None and not calls:
        yield f"{where} has neither content nor calls"
    if calls == []:
        yield f"{where} has a list of no calls"
    for text in _chat_texts(content):
        if not (text if role == "tool" else _said(text)):  # a result may be white space, and not nothing
            yield f"{where} has an empty text"
    for call in calls or []:
        function = call.get("function", {})
        yield from pairs.call(call.get("id"), longest=40)
        if call.get("type") != "function":
            yield f"{where} has a call of the type {call.get('type')!r}"
        if not FUNCTION_NAME.fullmatch(str(function.get("name", ""))):
            yield f"{where} has a call of {function.get('name')!r}, which is no name"
        if not _json_object(function.get("arguments")):
            yield f"{where} has arguments that are no JSON object"


def _chat_texts(content: Any) -> list[Any]:
    if content is None or isinstance(content, str):
        return [] if content is None else [content]
    return [part.get("text") for part in content if part.get("type") == "text"] or ([] if content else [""])


# OpenAI: Responses, of a client that keeps the conversation itself

_BY_ASSISTANT = frozenset({"function_call", "reasoning"})


def _responses(body: Body) -> Complaints:
    yield from _responses_head(body)
    items = body.get("input")
    if not isinstance(items, list) or not items:
        yield "there is no input"
        return
    pairs, before = _Pairs(), ""
    for place, item in enumerate(items):
        kind, where = item.get("type", "message"), f"item {place}"
        side = "assistant" if kind in _BY_ASSISTANT or item.get("role") == "assistant" else "user"
        if not before and side == "assistant":
            yield f"{where} begins a conversation as the assistant"
        if kind == "function_call_output":
            yield from pairs.answer(item.get("call_id"))
            yield from _texts_of_item(where, item.get("output"), ("input_text", "input_image"), blank=True)
        elif kind == "function_call":
            if before == "user":
                yield from pairs.all_answered(where)
            yield from _function_call(where, item, pairs)
        elif kind == "message":
            if side == "user" or before == "user":
                yield from pairs.all_answered(where)
            yield from _item_message(where, item, side, before == "user message" and side == "user")
        elif kind != "reasoning":
            yield f"{where} is of the type {kind!r}"
        before = "user message" if kind == "message" and side == "user" else side
    if before == "assistant":
        yield "the last item is the assistant's"
    yield from pairs.all_answered("the end")


def _responses_head(body: Body) -> Complaints:
    if not _said(body.get("model")):
        yield "no model is named"
    if not _said(body.get("instructions", "-")):
        yield "the instructions are empty"
    if body.get("previous_response_id") is not None or body.get("conversation") is not None:
        yield "it leans on a conversation of the provider's"
    if "tools" in body:
        tools = body["tools"]
        yield from _tools(tools, [tool.get("name") for tool in tools], [tool.get("parameters") for tool in tools])
    else:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                yield f"{name} without tools"


def _function_call(where: str, item: Body, pairs: _Pairs) -> Complaints:
    yield from pairs.call(item.get("call_id"), longest=64)
    if not FUNCTION_NAME.fullmatch(str(item.get("name", ""))):
        yield f"{where} is a call of {item.get('name')!r}, which is no name"
    if not _json_object(item.get("arguments")):
        yield f"{where} has arguments that are no JSON object"


def _item_message(where: str, item: Body, side: str, again: bool) -> Complaints:
    if item.get("role") not in ("user", "assistant", "system", "developer"):
        yield f"{where} is of the role {item.get('role')!r}"
    if again:
        yield f"{where} is a second one of the user"
    kinds = ("output_text", "refusal") if side == "assistant" else ("input_text", "input_image")
    yield from _texts_of_item(where, item.get("content"), kinds)


def _texts_of_item(where: str, content: Any, kinds: tuple[str, ...], *, blank: bool = False) -> Complaints:
    """``blank``: whether a text may be white space; nothing it may not be."""
    if isinstance(content, str):
        content = [{"type": kinds[0], "text": content}]
    if not isinstance(content, list) or not content:
        yield f"{where} is empty"
        return
    for part in content:
        if part.get("type") not in kinds:
            yield f"{where} has a part {part.get('type')!r}"
        elif "text" in part.get("type", "") and not (part.get("text") if blank else _said(part.get("text"))):
            yield f"{where} has an empty text"


_JUDGES: dict[str, Callable[[Body], Complaints]] = {"messages": _messages, "chat": _chat, "responses": _responses}
