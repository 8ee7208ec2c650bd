"""A model without a language model: it follows the list in the prompt, so that everything else can be seen working.

``simulated:disciplined`` reads what a model reads. It takes the last message of the person, reads its Markdown list, makes
for one item a round the calls that stand there in backticks (Python calls with literal arguments, of tools it was given),
and at the end answers with what they returned. Without a list it says what it is. It never fails and never tires;
its tokens are estimates, its cost is 0. ``?delay=0.02`` makes it speak one word every 0.02 seconds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

from agentnb.core.events import TextDelta
from agentnb.core.messages import AnyPart, Message, Text, ToolResult
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import UnknownModel, near
from agentnb.models.estimate import tokens_of_message, tokens_of_request
from agentnb.models.model import Reply, StreamItem
from agentnb.models.plan_text import calls_of, left_out, read_plan

PERSONAS = ("disciplined",)
"""The ways it can behave."""

MOST_OF_A_RESULT = 400
"""Characters of a result that it repeats in its answer."""


class SimulatedModel:
    """A plan-follower. ``delay`` is the number of seconds between two words."""

    def __init__(self, persona: str = "disciplined", *, delay: float = 0.0) -> None:
        if persona not in PERSONAS:
            raise UnknownModel(f"simulated: has no persona {persona!r}", near(persona, PERSONAS))
        if not 0 <= delay <= 10:
            raise UnknownModel(f"delay={delay} of simulated:{persona} is not between 0 and 10 seconds")
        self.persona = persona
        self.delay = delay

    @property
    def name(self) -> str:
        """``simulated:PERSONA``, with the options that are not the usual."""
        return f"simulated:{self.persona}" + (f"?delay={self.delay:g}" if self.delay else "")

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """The next step of the plan in the request, or the answer after the last."""
        parts = _next_parts(request)
        message = Message("assistant", parts)
        for word in re.findall(r"\S+\s*|\s+", message.text):
            if self.delay:
                await asyncio.sleep(self.delay)
            yield TextDelta(word)
        usage = Usage(tokens_of_request(request), tokens_of_message(message), cost=0.0, estimated=True)
        yield Reply(message, usage, stop_reason="tool_use" if message.calls else "end_turn")


def _next_parts(request: Request) -> tuple[AnyPart, ...]:
    prompt, since = _since_prompt(request.messages)
    plan = read_plan(prompt)
    if not plan:
        return (Text(_introduction(request)),)
    odd = [code for item in plan for code in left_out(item, request.tools)]
    steps = [(item, calls) for item in plan if (calls := calls_of(item, request.tools))]
    if not steps and not odd:
        items = "1 item" if len(plan) == 1 else f"{len(plan)} items"
        return (Text(f"The list has {items}, and none of them holds a call in backticks of a tool that I was given."),)
    done = sum(message.role == "assistant" for message in since)
    if done < len(steps):
        item, calls = steps[done]
        return (Text(f"Step {done + 1} of {len(steps)}: {item.title.rstrip('.')}."), *calls)
    results = [part for message in since for part in message.parts if isinstance(part, ToolResult)]
    return (Text(_answer(len(steps), results, odd)),)


def _since_prompt(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """The prompt it works on, and the messages after it.

    That is the last message of the person, unless it came beside results of tools and holds no list:
    such words are said along the way and change no plan.
    """
    since: list[Message] = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" or (message.role == "tool" and message.text.strip() and read_plan(message.text)):
            return message.text, since[::-1]
        since.append(message)
    return "", since[::-1]


def _introduction(request: Request) -> str:
    tools = ", ".join(f"`{tool.name}`" for tool in request.tools) or "none"
    return (
        "I am agentnb's simulated model: no language model, and nothing leaves this machine. "
        "I follow a list: write one item a step, with the call in backticks and literal arguments, such as "
        '- Load the table with `load("data.csv")`. '
        f"Tools I was given: {tools}. "
        "Real models come with the next version of agentnb: "
        "then set a provider's key, such as ANTHROPIC_API_KEY, and name the model, such as -m anthropic:NAME."
    )


def _answer(steps: int, results: Sequence[ToolResult], odd: Sequence[str]) -> str:
    lines = [f"Done: {steps} step{'' if steps == 1 else 's'}, {len(results)} tool call{'' if len(results) == 1 else 's'}."]
    lines += [f"{result.name}{' failed' if result.is_error else ''}: {_short(result)}" for result in results]
    lines += [f"Left out: {code} is no call with literal arguments that its tool has" for code in odd]
    return "\n\n".join(lines)


def _short(result: ToolResult) -> str:
    text = result.text.strip()
    return text if len(text) <= MOST_OF_A_RESULT else text[:MOST_OF_A_RESULT].rstrip() + " …"
