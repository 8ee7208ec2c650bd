"""The reply of the Chat Completions API, read from its chunks; lenient with servers that deviate from the format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, Message, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.models.model import Reply
from agentnb.models.provider import PART, CutOff, Refused, reported
from agentnb.models.providers.serialization import (
    checked,
    count,
    known_fields,
    object_of,
    read_arguments,
    without_half_call,
    words,
)

THINKING_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers send a model's thinking."""
MAX_LOOKS = 50
"""Most checks whether a call is complete, for servers that separate calls in no other way."""
_OWN_KEYS = frozenset({"index", "id", "type", "function"})


class ChatReading:
    """A reply being read from its chunks. ``own``: the key of its server's fields in the metadata of parts."""

    def __init__(self, *, own: str) -> None:
        self._own = own
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thinking_field = ""
        self._index: Any = None
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[Any, dict[str, Any]] = {}
        self._usage: Any = None
        self._finish = ""
        self._refused = False
        self.unshown = 0
        self._metadata: dict[str, Any] = {}

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read a chunk of the stream, and return its deltas."""
        if chunk.get("error"):
            raise Refused(reported(chunk["error"]))
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        if not self._metadata:
            self._metadata = {key: chunk[key] for key in ("id", "model") if chunk.get(key)}
        choice = self._choice(chunk.get("choices"))
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta")
        if isinstance(delta, str):
            delta = {"content": delta}
        return self._delta(delta) if isinstance(delta, dict) else ()

    def _choice(self, choices: Any) -> dict[str, Any]:
        """Return the reply's new part. If a server sends several replies, though not requested, the first one counts."""
        for choice in choices or ():
            if isinstance(choice, dict):
                index = choice.get("index") or 0
                if self._index is None:
                    self._index = index
                if index == self._index:
                    return choice
        return {}

    def _delta(self, delta: dict[str, Any]) -> Iterable[ReplyDelta]:
        told: list[ReplyDelta] = []
        for field in THINKING_FIELDS:
            if (thought := delta.get(field)) and isinstance(thought, str):
                self._thinking_field = field
                self._thinking.append(thought)
                told.append(ThinkingDelta(thought))
                break
        for field in ("content", "refusal"):
            if text := _plain(delta.get(field)):
                self._refused = self._refused or field == "refusal"
                self._text.append(text)
                told.append(TextDelta(text))
        for fragment in delta.get("tool_calls") or ():
            if isinstance(fragment, dict):
                self._call_fragment(fragment)
        return told

    def _call_fragment(self, fragment: dict[str, Any]) -> None:
        index, call_id = fragment.get("index"), fragment.get("id")
        if type(call_id) is int:
            call_id = str(call_id)
        function = fragment.get("function") or {}
        call = self._begun(index, call_id, function)
        if call is None or _begins_another(call, function):
            call = {"id": call_id or "", "name": "", "pieces": [], "given": None, "own": {}, "looks": 0, "end": ""}
            self._calls.append(call)
            self.unshown += PART
        if index is not None:
            self.unshown += PART * (index not in self._by_index)
            self._by_index[index] = call
        call["id"] = call["id"] or call_id or ""
        call["name"] = call["name"] or function.get("name") or ""
        own = {key: value for key, value in known_fields(fragment).items() if key not in _OWN_KEYS}
        self.unshown += PART * len(own)
        call["own"] |= own
        given = function.get("arguments")
        if isinstance(given, str):
            call["pieces"].append(given)
            self.unshown += len(given)
            call["end"] = given.rstrip()[-1:] or call["end"]
        elif given is not None:
            call["given"] = given

    def _begun(self, index: Any, call_id: Any, function: dict[str, Any]) -> dict[str, Any] | None:
        """Return the call that this fragment may continue. Some servers give all calls one index, or no index, or no id."""
        if index is not None:
            call = self._by_index.get(index)
            if call is None or not call_id or call["id"] in ("", call_id):
                return call
        if call_id:
            return next((one for one in self._calls if one["id"] == call_id), None)
        # Without an index and an id, a name starts a new call.
        return self._calls[-1] if self._calls and not function.get("name") else None

    def reply(self) -> Reply:
        """Return the whole reply."""
        if not self._finish:
            raise CutOff
        parts: list[AnyPart] = []
        if thought := "".join(self._thinking):
            parts.append(Thinking(thought, {self._own: self._thinking_field}))
        if text := "".join(self._text):
            parts.append(Text(text))
        half: dict[str, str] = {}
        whole = (*parts, *(_read_call(call, self._own) for call in self._calls))
        if self._finish == "length":
            ended = bool(self._calls) and (self._calls[-1]["end"] == "}" or self._calls[-1]["given"] is not None)
            whole, half = without_half_call(whole, ended=ended)
        stop_reason = "refusal" if self._refused else self._finish
        return checked(Reply(Message("assistant", whole), read_usage(self._usage), stop_reason, self._metadata | half))


def _plain(content: Any) -> str:
    """Return the text of content that is a string or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(words(text) for text in texts if text is not None)
    return content if isinstance(content, str) else ""


def _begins_another(call: dict[str, Any], function: dict[str, Any]) -> bool:
    """Return whether the fragment starts a new call, despite the same index or id: by another name, or after the call's end.

    A repeated name alone proves nothing: some servers repeat it with each fragment.
    """
    name, given = function.get("name"), function.get("arguments")
    if not name or not call["name"]:
        return False
    if name != call["name"]:
        return True
    if not given or (isinstance(given, str) and not given.lstrip().startswith("{")):
        return False
    return _is_whole(call)


def _is_whole(call: dict[str, Any]) -> bool:
    if call["given"] is not None:
        return True
    if call["end"] != "}" or call["looks"] == MAX_LOOKS:
        return False
    call["looks"] += 1
    return isinstance(read_arguments("".join(call["pieces"])), dict)


def _read_call(call: dict[str, Any], own: str) -> ToolCall:
    given = call["given"] if call["given"] is not None else read_arguments("".join(call["pieces"]))
    return ToolCall(call["name"], given, call["id"], {own: call["own"]} if call["own"] else None)


def as_stream(whole: Any) -> list[Any]:
    """Return a reply that came whole as the chunks of a stream."""
    choices = [{**choice, "delta": choice.get("message")} for choice in whole.get("choices") or () if isinstance(choice, dict)]
    return [{**whole, "choices": choices}]


def read_usage(reported: Any) -> Usage:
    """Return the usage that either API reports; counts that are missing are unknown."""
    reported = object_of(reported)
    of_input = object_of(reported.get("prompt_tokens_details") or reported.get("input_tokens_details"))
    of_output = object_of(reported.get("completion_tokens_details") or reported.get("output_tokens_details"))
    return Usage(
        input=count(reported.get("prompt_tokens", reported.get("input_tokens"))),
        output=count(reported.get("completion_tokens", reported.get("output_tokens"))),
        cache_read=count(of_input.get("cached_tokens")),
        cache_write=count(of_input.get("cache_write_tokens")),
        reasoning=count(of_output.get("reasoning_tokens")),
    )
