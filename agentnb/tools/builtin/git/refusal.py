"""Refusals: why a call of a git tool did nothing, as an error result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

from agentnb.core.messages import encodable
from agentnb.tools.tool import ToolOutcome, failure

P = ParamSpec("P")


class GitRefused(Exception):
    """A call that cannot be carried out. ``outcome`` is the error result."""

    def __init__(self, error_code: str, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.outcome = failure(error_code, encodable(problem), encodable(advice))


def returns_refusals(function: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str | ToolOutcome]]:
    """Make a tool return `GitRefused` as an error result, and its text without lone surrogates."""

    @wraps(function)
    async def run(*positional: P.args, **keywords: P.kwargs) -> str | ToolOutcome:
        try:
            return encodable(await function(*positional, **keywords))
        except GitRefused as refused:
            return refused.outcome

    return run
