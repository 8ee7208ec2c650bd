"""agentnb's promises about the body of each request, beyond the rules of the wire: a coherent conversation.

The rules of the wires themselves are in `agentnb.testing`; `refusals` applies those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from agentnb.testing.memory import Memory
from agentnb.testing.requests import rules_chat, rules_messages, rules_responses

Body = dict[str, Any]
VERSION = "2026-10-21"
ID = re.compile(r"[A-Za-z0-9_-]+")


def refusals(wire: str, body: Body) -> list[str]:
    """Why the provider of this wire would refuse the body: ``messages``, ``chat`` or ``responses``; empty if it would not."""
    if wire == "messages":
        return rules_messages.problems(body, Memory(), VERSION)
    return rules_chat.problems(body, minimal=False) if wire == "chat" else rules_responses.problems(body, Memory())


def complaints(wire: str, body: Body) -> list[str]:
    """Return the problem of a body: a refusal of the provider, or else a broken promise of agentnb."""
    return refusals(wire, body) or list(broken_promises(wire, body))


class Step(NamedTuple):
    """An item of a conversation: text, a call, a result, or something else."""

    role: str
    """Of its message; ``item`` for what the model said on the Responses wire, where one reply is several items."""
    kind: str
    value: Any
    """The text, or the id of the call."""
    begins: bool
    """True for the first item of its message."""


def broken_promises(wire: str, body: Body) -> Iterator[str]:
    steps = list({"messages": _of_messages, "chat": _of_chat, "responses": _of_responses}[wire](body))
    yield from _order([step for step in steps if step.begins])
    yield from _texts(steps)
    yield from _pairs(steps)
    if wire == "messages" and any(step.kind in ("call", "result") for step in steps) and not body.get("tools"):
        yield "there are calls and no tools"
    if body.get("tools") == []:
        yield "the list of tools is empty"
    if wire == "chat" and any("parameters" not in tool["function"] for tool in body.get("tools", ())):
        yield "a tool has no schema"


def _order(messages: list[Step]) -> Iterator[str]:
    roles = [message.role for message in messages]
    if "user" not in roles:
        yield "the user says nothing"
    if any(role in ("system", "developer") for role in roles[1:]):
        yield "a system prompt stands in the middle"
    if [role for role in roles if role not in ("system", "developer")][:1] != ["user"]:
        yield "the model begins the conversation"
    if roles and roles[-1] in ("assistant", "item"):
        yield "the model has the last word"
    for before, role in pairwise(roles):
        if role == before and role not in ("tool", "item"):
            yield f"two messages of the {role} stand in a row"


def _texts(steps: list[Step]) -> Iterator[str]:
    for number, step in enumerate(steps):
        if step.kind == "text" and not (isinstance(step.value, str) and step.value.strip()):
            yield f"text {number} is blank"
        if step.kind == "result text" and not step.value:
            yield f"text {number}, of a result, is empty"


def _pairs(steps: list[Step]) -> Iterator[str]:
    """Check that no id is used twice in a conversation, and that results directly follow their reply."""
    ids = [step.value for step in steps if step.kind == "call"]
    if len(set(ids)) < len(ids) or not all(isinstance(one, str) and ID.fullmatch(one) for one in ids):
        yield f"the ids of the calls are not unique, or none: {ids}"
    waiting: list[Any] = []
    before = ""
    for step in steps:
        kind = "result" if step.kind == "result text" else step.kind
        if kind == "result" and step.value in waiting:
            waiting.remove(step.value)
        elif waiting and kind != "result" and (before == "result" or step.role not in ("assistant", "item")):
            yield f"something stands between the calls {waiting} and their results"
            return
        if kind == "call":
            waiting.append(step.value)
        before = kind


# What stands in a body


def _blocks(content: Any) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _result_texts(role: str, content: Any) -> Iterator[Step]:
    """A result whose content is an empty list, or missing, has an empty text."""
    for block in _blocks(content) or [{"type": "text", "text": ""}]:
        if "text" in block:
            yield Step(role, "result text", block["text"], False)


def _of_messages(body: Body) -> Iterator[Step]:
    for block in _blocks(body.get("system")):
        yield Step("system prompt", "text", block.get("text"), False)
    for message in body["messages"]:
        for number, block in enumerate(_blocks(message["content"])):
            kind, role, first = block["type"], message["role"], number == 0
            if kind == "tool_use":
                yield Step(role, "call", block["id"], first)
            elif kind == "tool_result":
                yield Step(role, "result", block["tool_use_id"], first)
                yield from _result_texts(role, block.get("content"))
            else:
                yield Step(role, kind, block.get("text"), first)


def _of_chat(body: Body) -> Iterator[Step]:
    for message in body["messages"]:
        role, first = message["role"], True
        if role == "tool":
            yield Step(role, "result", message["tool_call_id"], True)
            yield from _result_texts(role, message["content"])
            continue
        for part in _blocks(message.get("content")):
            yield Step(role, part["type"], part.get("text"), first)
            first = False
        for call in message.get("tool_calls") or []:
            yield Step(role, "call", call["id"], first)
            first = False


def _of_responses(body: Body) -> Iterator[Step]:
    if "instructions" in body:
        yield Step("system prompt", "text", body["instructions"], False)
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield Step("item", "call", item["call_id"], True)
        elif kind == "function_call_output":
            yield Step("tool", "result", item["call_id"], True)
            yield from _result_texts("tool", item["output"])
        elif kind == "message":
            role = "item" if item["role"] == "assistant" else item["role"]
            for number, part in enumerate(_blocks(item["content"])):
                yield Step(role, "text" if "text" in part else "other", part.get("text"), number == 0)
        else:
            yield Step("item", "other", None, True)
