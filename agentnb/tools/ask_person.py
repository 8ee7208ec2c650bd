"""The built-in tool with which a model asks the person a question."""

from __future__ import annotations

from typing import Any

from agentnb.errors import Declined
from agentnb.tools.function import tool
from agentnb.tools.tool import ToolContext

GO_ON = "Continue with your best judgement and state your assumptions."


@tool(effects=(), blocking=True)
async def ask_person(context: ToolContext, question: str, options: tuple[str, ...] = ()) -> str:
    """Ask the person you work for, and wait for the answer.

    Use it when something only they can know or decide keeps you from going on: what they meant, which of several ways they
    want, whether to do something that cannot be undone. First look for yourself with the other tools. Ask one thing at a time,
    in plain words that can be understood without the conversation.

    :param question: what you want to know, one or two sentences that end with a question mark
    :param options: the answers to choose from, if there are only a few; the person can then give no other
    """
    choices = list(dict.fromkeys(options))
    schema: dict[str, Any] | None = {"type": "string", "enum": choices} if choices else None
    try:
        return str(await context.ask(question, schema))
    except Declined as error:
        return f"{error.what}. {GO_ON}"
