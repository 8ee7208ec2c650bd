"""The simulated model's replies to planning requests: the calls in the query's list as one plan, then the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.plans.plan_steps import ELICITATION
from agentnb.core.request import Request, ToolSpec
from agentnb.core.run.call_window import call_key
from agentnb.models.simulated.observation import Step, steps_of
from agentnb.models.simulated.plan_parser import read_plan, unread
from agentnb.models.simulated.planner import Move, introduction, listless, report

MAX_STEPS = 1_000
"""Maximum number of steps in one plan; further calls go into the next plan."""
_REFERENCE = re.compile(r"\$step\[\S*")
_LIKE_A_PLAN = re.compile(r"""(?:steps|elicitation)\b\s*["':]|\\[uUx]""")
"""Keys of a plan, and escapes that may hide one."""


def planned_reply(request: Request, planning: Mapping[str, Any]) -> Move:
    """Return a plan with the calls of the query that have no result, or the answer if all have one.

    ``planning``: ``query`` and ``results``, as in the planner's request. A question is never asked twice: the person's values
    for missing arguments of a tool are added to its calls; if there is no answer, these calls are left out.
    """
    seen = _Planning(str(planning.get("query") or ""), planning.get("results") or (), request.tools)
    if not seen.items:
        return Move("introduction", introduction(request.tools))
    due = seen.due[:MAX_STEPS]
    if due:
        steps = [{"type": "tool", "name": call.name, "args": call.arguments, "reason": title} for title, call in due]
        intention = f"Follow the list: {len(steps)} of {sum(len(step.calls) for step in seen.steps)} calls"
        return Move("planning", msgspec.json.encode({"intention": intention, "steps": steps}).decode())
    return Move("answer", seen.answer)


class _Due(NamedTuple):
    """A call to be planned, with the title of its item."""

    title: str
    call: ToolCall


class _Planning:
    """A query and the results so far, as a plan follower reads them."""

    def __init__(self, query: str, results: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec]) -> None:
        self.items = read_plan(query)
        self.steps = steps_of(self.items, tools)
        self._tools = tools
        self._required = {tool.name: tuple(tool.input_schema.get("required") or ()) for tool in tools}
        self._results = [result for result in results if result["name"] != ELICITATION]
        self._answers = [result for result in results if result["name"] == ELICITATION]
        self._made = {call_key(ToolCall(result["name"], result["args"])): result for result in self._results}

    @cached_property
    def due(self) -> list[_Due]:
        """Calls without a result, with the arguments known so far."""
        calls = [(step, self._complete(call)) for step in self.steps for call in step.calls]
        return [_Due(step.title, call) for step, call in calls if call is not None and self._result_of(call) is None]

    @property
    def answer(self) -> str:
        """The answer: the tools' results, the person's answers, and the items left out."""
        if not self.steps:
            return listless(len(self.items), self._tools)
        results = [_quotable(entry) for entry in self._results]
        ended = [errors for step in self.steps if (errors := self._errors_of(step))]
        failed = sum(None not in errors for errors in ended)
        unreadable = [entry for item in self.items for entry in unread(item, self._tools)]
        text = report(len(ended), failed, results, [_LIKE_A_PLAN.sub("…", entry) for entry in unreadable], self._tools)
        return "\n\n".join([text, *map(_in_words, self._answers), *self._uncalled])

    @property
    def _uncalled(self) -> list[str]:
        calls = [call for step in self.steps for call in step.calls]
        names = dict.fromkeys(call.name for call in calls if self._complete(call) is None)
        return [f"Not called because arguments are missing: {', '.join(names)}."] if names else []

    def _complete(self, call: ToolCall) -> ToolCall | None:
        """Return the call with the person's values for missing arguments, or None if they were asked for values but gave
        none.
        """
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        missing = [name for name in self._required[call.name] if name not in arguments]
        asked = [answer for answer in self._answers if f'"{call.name}"' in str(answer["args"])]
        if not (missing and asked):
            return call
        content = _content(asked[-1])
        return ToolCall(call.name, {**arguments, **content}) if all(name in content for name in missing) else None

    def _result_of(self, call: ToolCall) -> Mapping[str, Any] | None:
        """Return the result of a call. A reference to another step matches any value, because the results hold the actual
        value.
        """
        result = self._made.get(call_key(call))
        if result is None and _REFERENCE.search(str(call.arguments)):
            return next(
                (past for past in self._results if past["name"] == call.name and _fits(call.arguments, past["args"])), None
            )
        return result

    def _errors_of(self, step: Step) -> list[str | None]:
        """For each call of a step that has a result, return its error, or None if it succeeded."""
        calls = [completed for call in step.calls if (completed := self._complete(call)) is not None]
        return [result["error"] for call in calls if (result := self._result_of(call)) is not None]


def _content(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the person filled in; empty if they declined."""
    reply = msgspec.json.decode(answer["result"]) if isinstance(answer["result"], str) else answer["result"]
    content = reply.get("content") if isinstance(reply, dict) else None
    return content if isinstance(content, dict) else {}


def _in_words(answer: Mapping[str, Any]) -> str:
    """Return the person's answer as a sentence, not as JSON: a plan would be JSON."""
    fields = [f"{name} = {value}" for name, value in _content(answer).items()]
    text = f"You answered: {', '.join(fields)}." if fields else "You gave no answer."
    return "You have answered." if _LIKE_A_PLAN.search(text) else text


def _quotable(result: Mapping[str, Any]) -> ToolResult:
    """Return a result as a tool result, without text that would be read as a plan."""
    failed = result["error"] is not None
    value = result["error"] if failed else result["result"]
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if _LIKE_A_PLAN.search(text):
        text = f"({len(text):,} characters that look like a plan)"
    name = f"`{result['name']}`" if _LIKE_A_PLAN.search(f"{result['name']}:") else result["name"]
    return ToolResult("", name, (Text(text),), is_error=failed)


def _fits(written: Any, made: Any) -> bool:
    """Return whether arguments as written match those of an actual call, treating references as wildcards."""
    if isinstance(written, str) and _REFERENCE.fullmatch(written):
        return True
    if isinstance(written, dict) and isinstance(made, dict):
        return written.keys() == made.keys() and all(_fits(value, made[key]) for key, value in written.items())
    if isinstance(written, list) and isinstance(made, list):
        return len(written) == len(made) and _all_fit(zip(written, made, strict=True))
    return bool(written == made)


def _all_fit(pairs: Iterable[tuple[Any, Any]]) -> bool:
    return all(_fits(written, actual) for written, actual in pairs)
