"""A model server for benchmarks/providers.py: it speaks the providers' three formats and does nothing that takes time.

Why not `agentnb.testing.LoopbackServer`: that one is strict, it reads and checks the whole history of each request, and that
would be measured too. This one looks for three short texts in the body and writes replies that it made before.

The script is the model's name: "bench-50" asks for add() in 50 rounds and then says done, "words-5000" streams 5,000 chunks.
The id of the last call has the number of the round. The program prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

ID = b"_bench_round_"
DIGITS = 6
MODEL, STREAM, LENGTH = b'"model":"', b'"stream":true', b"content-length:"
PIECE = 6
"""Characters of the arguments in each event."""
EVENTS_AT_ONCE = 16
USED = (10, 5)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n%b\r\n\r\n"

Content = tuple[str, dict[str, int]] | list[str]
"""A call, id and arguments, or chunks of text."""


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def pieces(arguments: dict[str, int]) -> Iterable[str]:
    text = dumps(arguments)
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


# Chat Completions


def chat_events(model: str, content: Content) -> Iterable[dict[str, Any]]:
    base = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    if isinstance(content, list):
        yield chunk({"role": "assistant", "content": ""})
        yield from (chunk({"content": text}) for text in content)
        yield chunk({}, "stop")
    else:
        name = {"id": content[0], "type": "function", "function": {"name": "add", "arguments": ""}}
        yield chunk({"role": "assistant", "content": None, "tool_calls": [{"index": 0, **name}]})
        for piece in pieces(content[1]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    yield {**base, "choices": [], "usage": chat_usage()}


def chat_whole(model: str, content: Content) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if isinstance(content, list):
        message["content"] = "".join(content)
    else:
        function = {"name": "add", "arguments": dumps(content[1])}
        message["tool_calls"] = [{"id": content[0], "type": "function", "function": function}]
    finish = "stop" if isinstance(content, list) else "tool_calls"
    choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}]
    base = {"id": "chatcmpl-bench", "object": "chat.completion", "created": 1, "model": model}
    return {**base, "choices": choices, "usage": chat_usage()}


def chat_usage() -> dict[str, int]:
    return {"prompt_tokens": USED[0], "completion_tokens": USED[1], "total_tokens": sum(USED)}


# Responses


def responses_events(model: str, content: Content) -> Iterable[dict[str, Any]]:
    return ({**event, "sequence_number": number} for number, event in enumerate(responses_steps(model, content)))


def responses_steps(model: str, content: Content) -> Iterable[dict[str, Any]]:
    whole = responses_whole(model, content)
    item = whole["output"][0]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    at = {"item_id": item["id"], "output_index": 0}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    if isinstance(content, list):
        at["content_index"] = 0
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
        yield {"type": "response.content_part.added", **at, "part": {**item["content"][0], "text": ""}}
        for text in content:
            yield {"type": "response.output_text.delta", **at, "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "text": "".join(content), "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": item["content"][0]}
    else:
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}}
        for piece in pieces(content[1]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {"type": "response.function_call_arguments.done", **at, "name": "add", "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": whole}


def responses_whole(model: str, content: Content) -> dict[str, Any]:
    item: dict[str, Any] = {"id": "item_bench", "status": "completed"}
    if isinstance(content, list):
        text = {"type": "output_text", "text": "".join(content), "annotations": [], "logprobs": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    else:
        item |= {"type": "function_call", "call_id": content[0], "name": "add", "arguments": dumps(content[1])}
    base = {"id": "resp_bench", "object": "response", "created_at": 1, "model": model, "error": None}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "store": False}
    usage = {"input_tokens": USED[0], "output_tokens": USED[1], "total_tokens": sum(USED)}
    return {**base, **settings, "status": "completed", "output": [item], "usage": usage}


# Messages


def messages_events(model: str, content: Content) -> Iterable[dict[str, Any]]:
    whole = messages_whole(model, content)
    block = whole["content"][0]
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    if isinstance(content, list):
        deltas = [{"type": "text_delta", "text": text} for text in content]
        block = {**block, "text": ""}
    else:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(content[1])]
        block = {**block, "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": USED[1]},
    }
    yield {"type": "message_stop"}


def messages_whole(model: str, content: Content) -> dict[str, Any]:
    if isinstance(content, list):
        stop, block = "end_turn", {"type": "text", "text": "".join(content)}
    else:
        stop, block = "tool_use", {"type": "tool_use", "id": content[0], "name": "add", "input": content[1]}
    base = {"id": "msg_bench", "type": "message", "role": "assistant", "model": model, "content": [block]}
    usage = {"input_tokens": USED[0], "output_tokens": USED[1]}
    return {**base, "stop_reason": stop, "stop_sequence": None, "usage": usage}


# The server

Format = tuple[Callable[[str, Content], Iterable[dict[str, Any]]], Callable[[str, Content], dict[str, Any]], bool, bytes]

FORMATS: dict[bytes, Format] = {
    b"/chat/completions": (chat_events, chat_whole, False, b"data: [DONE]\n\n"),
    b"/responses": (responses_events, responses_whole, True, b""),
    b"/messages": (messages_events, messages_whole, True, b""),
}
"""By the end of the path: its events, its whole reply, whether events are named, and what comes last."""


def content_of(script: str, finished: int) -> Content:
    kind, _, number = script.partition("-")
    if kind == "words":
        return ["tok "] * int(number)
    if finished >= int(number):
        return ["do", "ne"]
    return f"call{ID.decode()}{finished:0{DIGITS}}", {"a": finished, "b": 1}


@lru_cache(maxsize=10_000)
def answer(path: bytes, model: str, streams: bool, finished: int) -> tuple[bytes, ...]:
    """The bytes of a reply, as the writes in which they go out."""
    events, whole, named, end = next(one for ending, one in FORMATS.items() if path.endswith(ending))
    content = content_of(model, finished)
    if not streams:
        body = dumps(whole(model, content)).encode()
        return (HEAD % (b"application/json", b"content-length: %d" % len(body)) + body,)
    texts = [
        (f"event: {event['type']}\n" if named else "").encode() + f"data: {dumps(event)}\n\n".encode()
        for event in events(model, content)
    ]
    chunks = [b"%x\r\n%b\r\n" % (len(text), text) for text in [*texts, end] if text]
    chunks[0] = HEAD % (b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked") + chunks[0]
    chunks.append(b"0\r\n\r\n")
    return tuple(b"".join(chunks[start : start + EVENTS_AT_ONCE]) for start in range(0, len(chunks), EVENTS_AT_ONCE))


class Wire(asyncio.Protocol):
    """A connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._received = bytearray()
        self._needed = 0

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < self._needed or (end := self._received.find(b"\r\n\r\n")) < 0:
            return
        head = bytes(self._received[:end]).lower()
        start = head.index(LENGTH) + len(LENGTH)
        self._needed = end + 4 + int(head[start:].split(b"\r\n", 1)[0])
        if len(self._received) < self._needed:
            return
        body = bytes(self._received[end + 4 : self._needed])
        del self._received[: self._needed]
        self._needed = 0
        self._answer(head.split(b" ", 2)[1].partition(b"?")[0], body)

    def _answer(self, path: bytes, body: bytes) -> None:
        start = body.index(MODEL) + len(MODEL)
        model = body[start : body.index(b'"', start)].decode()
        last = body.rfind(ID)
        finished = 0 if last < 0 else int(body[last + len(ID) : last + len(ID) + DIGITS]) + 1
        for data in answer(path, model, STREAM in body, finished):
            self._transport.write(data)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Wire, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
