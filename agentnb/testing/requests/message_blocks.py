"""The Messages API's rules for message content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentnb.core.messages import JsonObject
from agentnb.testing.ids import open_seal
from agentnb.testing.memory import Memory
from agentnb.testing.requests.value_checks import PICTURES, extra, is_base64, missing, names


class Shape(NamedTuple):
    """The fields of a block, and the roles that may send it."""

    required: frozenset[str]
    optional: frozenset[str]
    roles: frozenset[str]


def _shape(roles: str, required: str, optional: str = "") -> Shape:
    return Shape(names(required), names(optional), names(roles))


SHAPES = {
    "text": _shape("user assistant system", "text", "cache_control citations"),
    "image": _shape("user", "source", "cache_control transformations"),
    "document": _shape("user", "source", "cache_control citations context title"),
    "search_result": _shape("user", "content source title", "cache_control citations"),
    "tool_reference": _shape("user", "tool_name", "cache_control"),
    "tool_result": _shape("user", "tool_use_id", "content is_error cache_control toolset_name"),
    "tool_use": _shape("assistant", "id name input", "cache_control caller toolset_name"),
    "thinking": _shape("assistant", "thinking signature"),
    "redacted_thinking": _shape("assistant", "data"),
}
IN_RESULTS = frozenset({"text", "image", "document", "search_result", "tool_reference"})
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
CALL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")


def blocks_of(content: Any) -> list[JsonObject]:
    """Return the blocks; a string counts as one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block if isinstance(block, dict) else {"type": None} for block in content]


def block_problems(at: str, role: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    """Yield the problems of this block in a message with this role."""
    kind = block.get("type")
    shape = SHAPES.get(str(kind))
    if shape is None or role not in shape.roles:
        if not (role == "assistant" and memory.knows(block)):
            tags = ", ".join(f"'{name}'" for name, allowed in SHAPES.items() if role in allowed.roles)
            yield f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        return
    at = f"{at}.{kind}"
    wrong = [f"{at}.{name}: Field required" for name in missing(block, sorted(shape.required))]
    wrong += [
        f"{at}.{name}: Extra inputs are not permitted" for name in extra(block, {"type", *shape.required, *shape.optional})
    ]
    if wrong:
        yield from wrong
        return
    if kind in _CHECKS:
        yield from _CHECKS[str(kind)](at, block, memory)


def _text(at: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    if not isinstance(block["text"], str):
        yield f"{at}.text: Input should be a valid string"
    elif not block["text"].strip():
        if block.get("cache_control") is not None:
            yield f"{at}: cache_control cannot be set for empty text blocks"
        yield f"messages: text content blocks must {'contain non-whitespace text' if block['text'] else 'be non-empty'}"


def _image(at: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    source = block["source"]
    if not isinstance(source, dict) or source.get("type") not in ("base64", "url", "file"):
        yield f"{at}.source: Input tag does not match any of the expected tags: 'base64', 'url', 'file'"
    elif source["type"] == "base64":
        for name in extra(source, ("type", "media_type", "data")):
            yield f"{at}.source.base64.{name}: Extra inputs are not permitted"
        if source.get("media_type") not in PICTURES:
            yield f"{at}.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        if not is_base64(source.get("data")):
            yield f"{at}.source.base64.data: invalid base64 data"


def _tool_use(at: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    if not isinstance(block["id"], str) or not CALL_ID.fullmatch(block["id"]):
        yield f"{at}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not isinstance(block["name"], str) or not CALL_NAME.fullmatch(block["name"]):
        yield f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"
    if not isinstance(block["input"], dict):
        yield f"{at}.input: Input should be a valid dictionary"


def _tool_result(at: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    content = block.get("content")
    if not isinstance(block.get("is_error", False), bool):
        yield f"{at}.is_error: Input should be a valid boolean"
    if content is not None and not isinstance(content, str | list):
        yield f"{at}.content: Input should be a valid list"
        return
    if block.get("is_error") and not content:
        yield f"{at}: content cannot be empty if `is_error` is true"
    for index, inner in enumerate(content if isinstance(content, list) else []):
        kind = inner.get("type") if isinstance(inner, dict) else None
        if kind not in IN_RESULTS:
            yield f"{at}.content.{index}: Input tag '{kind}' does not match any of the expected tags"
            continue
        if block.get("is_error") and kind != "text":
            yield f"{at}: all content must be type `text` if `is_error` is true"
        yield from block_problems(f"{at}.content.{index}", "user", inner, memory)


def _thinking(at: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    seal = open_seal(block["signature"])
    if not isinstance(seal, list):
        yield f"{at}: Invalid `signature` in `thinking` block"
    elif seal[1:] != [block["thinking"]]:
        yield f"{at}: `thinking` blocks cannot be modified. They must remain as they were in the original response."


def _check_redacted(at: str, block: JsonObject, memory: Memory) -> Iterator[str]:
    if not memory.knows(block):
        yield f"{at}: Invalid `data` in `redacted_thinking` block"


_CHECKS = {
    "text": _text,
    "image": _image,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _check_redacted,
}
