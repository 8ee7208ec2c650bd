"""The model and the tools of generated conversations, including badly behaved ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from generated_conversations import Answer, Call

from agentnb import ToolCall, tool
from agentnb.core.messages import Image, Message, Text, Thinking
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import ContextOverflow
from agentnb.guidance.prompts import prompt
from agentnb.models import Reply, TextDelta
from agentnb.models.capabilities import Capabilities
from agentnb.models.model import Retry, StreamItem
from agentnb.models.registry import wire_form
from agentnb.testing.ids import make_seal
from agentnb.tools.tool import ToolOutcome

WIRES = {"messages": "anthropic:m", "chat": "openai:m", "responses": "openai-responses:m"}
PNG = Image("image/png", b"\x89PNG not really")
SUMMARY = prompt("compaction")
"""The system prompt of the request for a summary."""


# Tools


async def fine(x: int = 0) -> str:
    await asyncio.sleep(0)
    return f"fine {x}"


def plain(x: int = 0) -> str:
    return f"plain {x}"


@tool(parallel_safe=True)
async def beside(x: int = 0) -> str:
    await asyncio.sleep(0.01 * x)
    return f"beside {x}"


async def nothing(x: int = 0) -> None:
    return None


async def blank(x: int = 0) -> ToolOutcome:
    return ToolOutcome(True, (Text(" \n"),))


async def picture(x: int = 0) -> ToolOutcome:
    return ToolOutcome(x != 1, (PNG, Text("")))


async def large(x: int = 0) -> str:
    return "".join(f"line {number}\n" for number in range(300))


async def fails(x: int = 0) -> None:
    raise ValueError("no such row")


@tool(parallel_safe=True)
async def fails_beside() -> None:
    raise ValueError("no such row either")


async def quits() -> None:
    raise SystemExit(3)


def ends_an_iteration() -> None:
    next(iter(()))


async def cancels_itself() -> None:
    raise asyncio.CancelledError("mine")


@tool(timeout=3)
async def hangs() -> None:
    await asyncio.Event().wait()


@tool(timeout=3, parallel_safe=True)
async def hangs_beside() -> None:
    await asyncio.Event().wait()


async def stubborn() -> str:
    """Stays for ten seconds, whoever cancels it."""
    until = asyncio.get_running_loop().time() + 10
    while (left := until - asyncio.get_running_loop().time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)
    return "late"


async def interrupts() -> None:
    raise KeyboardInterrupt


@tool(parallel_safe=True)
async def interrupts_beside() -> None:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


TOOLS = (
    fine,
    plain,
    beside,
    nothing,
    blank,
    picture,
    large,
    fails,
    fails_beside,
    quits,
    ends_an_iteration,
    cancels_itself,
    hangs,
    hangs_beside,
    stubborn,
    interrupts,
    interrupts_beside,
)


# The model


class PlayingModel:
    """Plays the answers of a turn; records each request and its body on each wire.

    ``requests`` are those of rounds; ``bodies`` include summaries and requests that were too long.
    """

    name = "scripted:played"

    def __init__(self, answers: tuple[Answer, ...], summary: str) -> None:
        self.requests: list[Request] = []
        self.bodies: list[dict[str, bytes]] = []
        self.errors: list[Exception] = []
        self._answers = list(answers)
        self._summary = summary

    def capabilities(self) -> Capabilities:
        return Capabilities(language_model=self._summary != "none", has_price=True)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        try:
            self.bodies.append({wire: wire_form(name, request) or b"" for wire, name in WIRES.items()})
        except Exception as error:  # would count as a failure of the model
            self.errors.append(error)
        usage = Usage(input=len(self.bodies[-1]["chat"]) // 4, output=20, cost=0.01)
        await asyncio.sleep(0)
        if request.system == SUMMARY:
            yield self._summed_up(usage)
            return
        answer = self._answers.pop(0) if self._answers else Answer(f"Done after {len(self.requests)} requests.")
        if answer.breaks == "too long":
            raise ContextOverflow("The request is too long for this model")
        self.requests.append(request)
        if answer.breaks == "error at once":
            raise ConnectionError("the model is not there")
        if answer.breaks == "retry":
            yield TextDelta("What will not ")
            yield Retry(1, 2.0, "It broke off")
        for word in answer.words.split():
            yield TextDelta(f"{word} ")
            await asyncio.sleep(0)
        match answer.breaks:
            case "error":
                raise ConnectionError("the line broke")
            case "interrupt":
                raise KeyboardInterrupt
            case "no reply":
                return
        yield _reply(answer, usage)

    def _summed_up(self, usage: Usage) -> Reply:
        if self._summary == "error":
            raise ConnectionError("no summary today")
        words = (Text("## Original task\n- Look."),) if self._summary == "words" else ()
        return Reply(Message("assistant", words), usage, "end_turn")


def _reply(answer: Answer, usage: Usage) -> Reply:
    thought = f"I think of {len(answer.words)} characters"
    signed = {"type": "thinking", "thinking": thought, "signature": make_seal(["thinking", thought])}
    thinking = (Thinking(thought, {"anthropic": signed}),) if answer.thinks else ()
    words = (Text(answer.words),) if answer.words else ()
    message = Message("assistant", (*thinking, *words, *map(_call, answer.calls)))
    return Reply(message, usage, stop_reason=answer.ends or ("tool_use" if answer.calls else "end_turn"))


def _call(call: Call) -> ToolCall:
    return ToolCall(call.tool, {} if call.arguments is None else call.arguments, call.id)
