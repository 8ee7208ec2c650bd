"""Replies of the Chat Completions API, read from their chunks; lenient with servers that deviate from the format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, JsonObject, Message, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.models.model import Reply
from agentnb.models.provider import DONE, PART, CutOff, Refused, sealed_length
from agentnb.models.providers.serialization import (
    ARGUMENTS_MENDED,
    call_of,
    count,
    known_fields,
    object_of,
    read_arguments,
    sanitize_reply,
    without_half_call,
    words,
)
from agentnb.models.transport.failure import error_text, read_error

THINKING_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers send a model's thinking."""
DETAILS = ("reasoning_details", "thinking_blocks")
"""Fields in which gateways, such as OpenRouter and LiteLLM, send thinking in a form that can be sent back."""
SHOWN = ("thinking", "summary", "text")
"""Text fields of a part or detail of thinking."""
PIECES = (*SHOWN, "data", "signature")
"""Fields of a detail that are sent in pieces."""
THOUGHTS = ("thinking", "reasoning")
"""Types of content parts that are thinking: Mistral's and Databricks'."""
TAGS = {"<think>": "</think>", "<thinking>": "</thinking>", "[THINK]": "[/THINK]"}
"""Tags around thinking inside the text."""
LONE_END = re.compile(rf"(?<![`'\"])(?:{'|'.join(map(re.escape, TAGS.values()))})\s*")
"""End tag of thinking whose start tag is in the prompt, as in DeepSeek's and Qwen's templates."""
FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})
"""Finish reasons of servers that could not finish: OpenRouter's, Zhipu's and DeepSeek's."""
MAX_LOOKS = 50
"""Maximum number of times to check whether a call is complete, for servers that do not otherwise separate calls."""
MAX_BLANK = 1000
"""Maximum number of blank characters before a tag."""
COUNTS = {
    "input": ("prompt_tokens", "input_tokens"),
    "output": ("completion_tokens", "output_tokens"),
    "cache_read": ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    "cache_write": ("cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning": ("reasoning_tokens",),
}
"""Usage fields of both APIs and of other servers, such as DeepSeek's and LiteLLM's names for the cache."""
COUNT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details")
_OWN_KEYS = frozenset({"index", "id", "type", "function"})


@dataclass(slots=True, eq=False)
class _Call:
    """A call being read from its fragments."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    given: Any = None
    """Arguments that came as an object, not as text."""
    own: JsonObject = field(default_factory=dict)
    """Fields that the server may expect back."""
    end: str = ""
    """The last character of the arguments."""
    looks: int = 0

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    def is_followed_by(self, function: Mapping[str, Any]) -> bool:
        """Return whether the fragment starts another call, despite the same index or id: it has another name, or the arguments
        have ended.

        A repeated name alone proves nothing: some servers repeat it with each fragment.
        """
        name = function.get("name")
        if not name or not self.name:
            return False
        return name != self.name or (_begins(function) and self.is_whole())

    def has_rest_of_name(self, call_id: Any, function: Mapping[str, Any]) -> bool:
        """Return whether the fragment continues the name: the server sends ids, and this fragment does not have a different
        one.
        """
        is_same = self.id and call_id in (None, "", self.id) and self.name
        return bool(is_same and function.get("name") not in (None, "", self.name) and not (self.end or self.given))

    def goes_on(self, function: Mapping[str, Any]) -> bool:
        """Return whether the fragment, despite a different index or id, can only be the rest of the arguments."""
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(arguments, str) or not arguments.strip() or name not in (None, "", self.name) or self.is_whole():
            return False
        return not (_begins(function) if self.end else name)

    def is_whole(self) -> bool:
        """Return whether the arguments can be parsed."""
        if self.given is not None:
            return True
        if self.end != "}" or self.looks == MAX_LOOKS:
            return False
        self.looks += 1
        return isinstance(read_arguments(self.text), dict)

    def read(self, own: str, mended: list[str]) -> ToolCall:
        """Return the call, and add repairs of its arguments to ``mended``."""
        return call_of(self.name, self.given or self.text, self.id, mended, {own: self.own} if self.own else None)


def _begins(function: Mapping[str, Any]) -> bool:
    """Return whether the fragment contains the start of the arguments."""
    arguments = function.get("arguments")
    return arguments.lstrip().startswith("{") if isinstance(arguments, str) else arguments is not None


class ChatReading:
    """A reply being read from its chunks.

    ``own``: key of the server's fields in the metadata of parts; ``tags``: whether thinking comes in tags at the start of the
    text.
    """

    def __init__(self, *, own: str, tags: bool = False) -> None:
        self._own = own
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._returned: JsonObject = {}
        """Thinking fields that the server may expect back; None for the field that holds the text."""
        self._has_tags = tags
        self._tag: str | None = "" if tags else None
        """End tag of the open tag; empty if a start tag may follow, None if tags are ignored."""
        self._is_tagged = False
        self._held = ""
        """Text that may turn out to be part of a tag."""
        self._index: Any = None
        self._calls: list[_Call] = []
        self._by_index: dict[Any, _Call] = {}
        self._left_open: list[_Call] = []
        """Calls whose arguments had not ended when another began: fragments with neither index nor id are assigned to them
        first.
        """
        self._usage: JsonObject = {}
        self._finish = ""
        self._refused = False
        self._without_choices: JsonObject = {}
        self.unshown = 0
        self._metadata: JsonObject = {}

    @property
    def ended(self) -> bool:
        """True once the server has finished the reply; only its usage may follow."""
        return bool(self._finish)

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read a chunk of the stream, and return its deltas."""
        choice = self._choice(chunk.get("choices"))
        if error := chunk.get("error") or choice.get("error"):
            raise Refused(read_error(error))
        if usage := chunk.get("usage") or choice.get("usage"):
            self._count(usage)
        if not self._metadata:
            self._metadata = {key: chunk[key] for key in ("id", "model") if chunk.get(key)}
        if not choice:
            self._other(chunk)
            return ()
        if (delta := choice.get("delta")) is None and not (self._text or self._calls):
            delta = choice.get("message")  # after deltas, some servers repeat the complete message
        if isinstance(delta, str):
            delta = {"content": delta}
        deltas = self._delta(delta) if isinstance(delta, dict) else []
        if (finish := choice.get("finish_reason")) and (chunk is not DONE or self._is_whole()):
            self._finish = finish
            self._count(object_of(chunk.get("x_groq")).get("usage"))
            if self._held:
                self._say_held(self._held, deltas)
        return deltas

    def _choice(self, choices: Any) -> JsonObject:
        """Return the new part of the reply. If a server sends several replies unasked, the first one counts."""
        for choice in choices or ():
            if isinstance(choice, dict):
                index = choice.get("index") or 0
                if self._index is None:
                    self._index = index
                if index == self._index:
                    return choice
        return {}

    def _other(self, chunk: JsonObject) -> None:
        """Read a chunk without any part of the reply: it may be an error, in any form."""
        self._count(object_of(chunk.get("x_groq")).get("usage"))
        if chunk.get("object") == "error":
            raise Refused(read_error(chunk))
        if not chunk.get("choices") and "usage" not in chunk:
            self._without_choices = chunk

    def _count(self, usage: Any) -> None:
        self._usage = _merge_counts(self._usage, usage)

    def _delta(self, delta: JsonObject) -> list[ReplyDelta]:
        content = delta.get("content")
        if content and len(delta) == 1 and isinstance(content, str) and self._tag is None:  # nearly all chunks
            self._text.append(content)
            return [TextDelta(content)]
        if error := delta.get("error"):
            raise Refused(read_error(error))
        deltas: list[ReplyDelta] = []
        self._think(delta, deltas)
        if content:
            self._content(content, deltas)
        if (refusal := delta.get("refusal")) and (refusal := _plain(refusal)):
            self._refused = True
            self._say(refusal, deltas)
        if fragments := delta.get("tool_calls"):
            for fragment in [fragments] if isinstance(fragments, dict) else fragments:
                if isinstance(fragment, dict):
                    self._call_fragment(fragment)
        if isinstance(function := delta.get("function_call"), dict):  # the API's former field
            self._call_fragment({"index": "function_call", "function": function})
        return deltas

    def _content(self, content: Any, deltas: list[ReplyDelta]) -> None:
        if thought := _thought(content):
            self._say(thought, deltas, thought=True)
        if text := _plain(content):
            if self._tag is None:
                self._say(text, deltas)
            else:
                self._say_untagged(text, deltas)

    def _think(self, delta: JsonObject, deltas: list[ReplyDelta]) -> None:
        """Read the fields of thinking."""
        for name in THINKING_FIELDS:
            if (thought := delta.get(name)) and isinstance(thought, str):
                self._returned[name] = None
                self._say(thought, deltas, thought=True)
                break
        for name in DETAILS:
            if details := delta.get(name):
                self._keep_details(name, details)
                if self._returned.keys().isdisjoint(THINKING_FIELDS) and (thought := "".join(map(_text_of_thought, details))):
                    self._say(thought, deltas, thought=True)

    def _keep_details(self, name: str, details: Any) -> None:
        """Keep the details of thinking, joining the pieces of each."""
        kept = self._returned.setdefault(name, [])
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            self.unshown += PART + sealed_length(detail)
            last = kept[-1] if kept else {}
            is_piece = "index" in detail or ("thinking" in detail and not last.get("signature"))
            if not is_piece or any(last.get(key) != detail.get(key) for key in ("type", "index")):
                kept.append(dict(detail))
                continue
            for key, value in known_fields(detail).items():
                joins = key in PIECES and isinstance(value, str) and isinstance(last.get(key), str)
                last[key] = last[key] + value if joins else value

    def _say(self, text: str, deltas: list[ReplyDelta], *, thought: bool = False) -> None:
        (self._thinking if thought else self._text).append(text)
        deltas.append(ThinkingDelta(text) if thought else TextDelta(text))

    def _say_untagged(self, text: str, deltas: list[ReplyDelta]) -> None:
        """Emit text that may begin with thinking in tags, holding back an ending that may be part of a tag."""
        held, self._held = self._held + text, ""
        while held:
            if self._tag:
                thought, closed, remainder = held.partition(self._tag)
                if not closed:
                    thought, remainder = _before_part_of(self._tag, held)
                if thought := thought if self._thinking else thought.lstrip():
                    self._say(thought, deltas, thought=True)
                if not closed:
                    self._held = remainder
                    return
                self._tag, held = "", remainder
            start = held.lstrip()
            if tag := next(filter(start.startswith, TAGS), ""):
                self._tag, self._is_tagged, held = TAGS[tag], True, start[len(tag) :]
            elif any(tag.startswith(start) for tag in TAGS) and len(held) <= MAX_BLANK:
                self._held = held
                return
            else:
                self._say_held(held, deltas)
                return

    def _say_held(self, held: str, deltas: list[ReplyDelta]) -> None:
        """Emit text outside tags, and stop looking for tags. Blanks after a tag are dropped."""
        if text := held.lstrip() if self._is_tagged and not self._tag else held:
            self._say(text, deltas, thought=bool(self._tag))
        self._tag, self._held = None, ""

    def _call_fragment(self, fragment: JsonObject) -> None:
        index, call_id, function = fragment.get("index"), fragment.get("id"), object_of(fragment.get("function"))
        if type(call_id) is int:
            call_id = str(call_id)
        call = self._find_call(index, call_id, function)
        if call is not None and self._by_index.get(index, call) is call and call.has_rest_of_name(call_id, function):
            call.name += function["name"]
        elif call is None or call.is_followed_by(function):
            if self._calls and self._calls[-1].end and not self._calls[-1].is_whole():
                self._left_open.append(self._calls[-1])
            call = _Call()
            self._calls.append(call)
            self.unshown += PART
        if index is not None:
            self.unshown += PART * (index not in self._by_index)
            self._by_index[index] = call
        call.id = call.id or call_id or ""
        call.name = call.name or function.get("name") or ""
        if not fragment.keys() <= _OWN_KEYS:
            own = {key: value for key, value in known_fields(fragment).items() if key not in _OWN_KEYS}
            self.unshown += PART * len(own)
            call.own |= own
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.pieces.append(arguments)
            self.unshown += len(arguments)
            call.end = arguments.rstrip()[-1:] or call.end
            if call in self._left_open and call.is_whole():
                self._left_open.remove(call)
        elif arguments is not None:
            call.given = arguments

    def _find_call(self, index: Any, call_id: Any, function: Mapping[str, Any]) -> _Call | None:
        """Return the call that this fragment may continue. Some servers send one index for all calls, or no index, or no id.

        A call known by its index continues even if its id changes, unless a name starts another.
        """
        call = self._by_index.get(index) if index is not None else None
        if call is not None and (not call_id or call.id in ("", call_id)):
            return call
        name = function.get("name")
        if call_id and (call is not None or index is None or not name):
            same = next((candidate for candidate in self._calls if candidate.id == call_id), None)
            if same is not None:
                return same
        if call is not None:
            return call if not name or call.goes_on(function) else None
        is_unmarked = index is None and not call_id
        if not self._calls or (name and not is_unmarked):  # a name with its own index or id starts another call
            return None
        last = self._calls[-1]
        if is_unmarked and not name:
            return (self._left_open or self._calls[-1:])[0]
        return last if last.has_rest_of_name(call_id, function) or last.goes_on(function) else None

    def reply(self) -> Reply:
        """Return the complete reply."""
        if not self._finish or self._finish in FAILED:
            self._raise_failed()
        parts: list[AnyPart] = []
        thought, text = "".join(self._thinking), "".join(self._text)
        # When all of it has been shown, only the end tag shows that the text began with thinking.
        if self._has_tags and (end := LONE_END.search(text)) and not any(tag in text[: end.start()] for tag in TAGS):
            thought, text = thought + text[: end.start()].lstrip(), text[end.end() :]
        if thought or self._returned:
            parts.append(Thinking(thought, {self._own: self._returned} if self._returned else None))
        if text:
            parts.append(Text(text))
        mended: list[str] = []
        half: dict[str, str] = {}
        whole = (*parts, *(call.read(self._own, mended) for call in self._calls))
        if self._finish == "length":
            ended = bool(self._calls) and (self._calls[-1].end == "}" or self._calls[-1].given is not None)
            whole, half = without_half_call(whole, ended=ended)
        metadata = self._metadata | half | ({ARGUMENTS_MENDED: mended} if mended else {})
        stop_reason = "refusal" if self._refused else self._finish
        return sanitize_reply(Reply(Message("assistant", whole), read_usage(self._usage), stop_reason, metadata))

    def _is_whole(self) -> bool:
        """Return whether a stream without a finish reason had text, or calls whose arguments can all be parsed."""
        if self._finish or error_text(self._without_choices) or not (self._text or self._calls):
            return False
        return all(call.given is not None or isinstance(read_arguments(call.text), dict) for call in self._calls)

    def _raise_failed(self) -> None:
        if error_text(self._without_choices):
            raise Refused(read_error(self._without_choices))
        raise Refused(read_error({"code": self._finish})) if self._finish else CutOff


def _before_part_of(tag: str, text: str) -> tuple[str, str]:
    """Split off the end of the text that may begin the tag."""
    most = min(len(tag) - 1, len(text))
    length = next((length for length in range(most, 0, -1) if tag.startswith(text[-length:])), 0)
    return text[: len(text) - length], text[len(text) - length :]


def _plain(content: Any) -> str:
    """Return the text of content that is a string, a part or a list of parts, without its thinking."""
    if isinstance(content, list):
        return "".join(_plain(part) for part in content if isinstance(part, dict))
    if isinstance(content, dict):
        return "" if content.get("type") in THOUGHTS else words(content.get("text") or "")
    return content if isinstance(content, str) else ""


def _thought(content: Any) -> str:
    """Return the thinking in the parts of content."""
    if isinstance(content, list):
        return "".join(map(_thought, content))
    return _text_of_thought(content) if isinstance(content, dict) and content.get("type") in THOUGHTS else ""


def _text_of_thought(part: Any) -> str:
    return _plain(next(filter(None, map(part.get, SHOWN)), "")) if isinstance(part, dict) else ""


def as_stream(whole: Any) -> list[Any]:
    """Return a complete reply as the chunks of a stream. A message counts as finished, even without a finish reason."""
    choices = [
        {**choice, "finish_reason": choice.get("finish_reason") or _end_of(choice)}
        for choice in whole.get("choices") or ()
        if isinstance(choice, dict)
    ]
    return [{**whole, "choices": choices}]


def _end_of(choice: JsonObject) -> str | None:
    message = object_of(choice.get("message"))
    return "stop" if message.get("content") or message.get("tool_calls") else None


def _merge_counts(counts: Mapping[str, Any], more: Any) -> JsonObject:
    """Merge two mappings of counts; a later count replaces an earlier one, unless it is zero."""
    return {**counts, **{key: value for key, value in known_fields(more).items() if value or key not in counts}}


def read_usage(reported: Any) -> Usage:
    """Return the usage that either API reports; missing counts are unknown."""
    reported = object_of(reported)
    counts = reduce(_merge_counts, map(reported.get, COUNT_DETAILS), reported)
    sides: JsonObject = {}
    for side, names in COUNTS.items():
        values = [counts[name] for name in names if counts.get(name) is not None]
        sides[side] = count(next(filter(None, values), values[0] if values else None))
    return Usage(**sides)
