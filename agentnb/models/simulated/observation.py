"""The simulated model's view of a request. Its progress comes from the messages: it has no memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request, role_of
from agentnb.core.run.rounds import DENIED, DUPLICATE
from agentnb.core.todos import TODO_TOOL
from agentnb.models.simulated.plan_parser import (
    Arguments,
    Entry,
    PlanItem,
    arguments_of,
    calls_of,
    left_out,
    read_listing,
    read_plan,
    short_title,
    unread,
)

ANSWERED = re.compile(r"Done\b|The list has ")
"""Beginnings by which the simulated model's answers are recognized."""
_STEP = re.compile(r"Step (\d+) of \d+: (.*)\.\Z", re.DOTALL)
_TODO = re.compile(r"Todo (\d+): ")
_REMINDER = re.compile(r"\s*<system-reminder>(.*)</system-reminder>\s*", re.DOTALL)
_MAKES_LIST = ("write", "add")


class Step(NamedTuple):
    """An item of the plan with tool calls."""

    title: str
    calls: tuple[ToolCall, ...]


class _StepMove(NamedTuple):
    """A reply that carried out a step."""

    at: int
    """Its index in `Observation.since`."""
    message: Message
    place: int
    """The index of the step, from 0."""


class Observation:
    """A request, as a plan follower reads it."""

    def __init__(self, request: Request) -> None:
        self.tools = request.tools
        self.messages, ephemeral_text = _without_reminder(request.messages)
        self.reminder = ephemeral_text.lower()
        self._told = read_listing(ephemeral_text)
        """The todo list in the reminder, if any."""
        self.turn = sum(message.role == "assistant" for message in self.messages)
        """Replies so far."""
        self.plan, self.since = _since_plan(self.messages)
        """The newest plan in a message by others, and the messages after it."""
        self.arguments = arguments_of(self.tools)
        self.steps = steps_of(self.plan, self.arguments)
        self.has_todos = TODO_TOOL in self.arguments
        self.keeps_list = self.has_todos and not any(call.name == TODO_TOOL for step in self.steps for call in step.calls)
        """True if it adds its steps as todos, as it does unless the plan itself calls the todo tool."""

    @cached_property
    def plan_result(self) -> dict[str, Any] | None:
        """Result of a plan that the person approved, from a separate line of JSON in the last message, if any."""
        last = self.messages[-1] if self.messages else None
        for line in last.text.splitlines() if last is not None and last.role == "user" else ():
            with suppress(msgspec.DecodeError, RecursionError):
                value = msgspec.json.decode(line)
                if isinstance(value, dict) and {"plan_id", "status", "summary"} <= value.keys():
                    return value
        return None

    @cached_property
    def odd(self) -> list[str]:
        """Code in the plan that looks like a call but is not valid."""
        return [code for item in self.plan for code in left_out(item, self.arguments)]

    @cached_property
    def left_out(self) -> list[str]:
        """Everything in the plan that it does not do: code other than calls to its tools, and items without code."""
        return [skipped for item in self.plan for skipped in unread(item, self.arguments)]

    @cached_property
    def made(self) -> list[int]:
        """Steps whose calls it has made, by index from 0."""
        return sorted({move.place for move in self._moves if move.place < len(self.steps)})

    @cached_property
    def _moves(self) -> list[_StepMove]:
        """The replies since the plan that each carried out a step."""
        moves = []
        for index, message in enumerate(self.since):
            if message.role == "assistant" and (match := _STEP.match(message.text)) and message.calls:
                moves.append(_StepMove(index, message, int(match[1]) - 1))
        return moves

    @cached_property
    def next_step(self) -> int | None:
        """The next step, or None: a step to retry, otherwise the first step after the last one made that the list does not show
        as completed.
        """
        if self.due_again:
            return self.due_again[0]
        first = self.made[-1] + 1 if self.made else 0
        remaining = range(first, len(self.steps))
        return next((index for index in remaining if index not in self.own or self.own[index].is_open), None)

    @cached_property
    def due_again(self) -> list[int]:
        """Steps to retry, at most once: all their calls failed, the person has written since, and their todo is no longer
        blocked.
        """
        tries = Counter(move.place for move in self._moves)
        due = [index for index in self.failed if index not in self._tried_since_words and tries[index] < 2]
        return [index for index in due if index in self.own and self.own[index].status in ("not-started", "in-progress")]

    @cached_property
    def _tried_since_words(self) -> set[int]:
        """Steps it has made since the person's last message."""
        last = max((index for index, message in enumerate(self.since) if message.role == "user"), default=-1)
        return {move.place for move in self._moves if move.at > last} if last >= 0 else set(self.made)

    @cached_property
    def answered(self) -> bool:
        """True if it has answered after its last step."""
        for message in reversed(self.since):
            if message.role == "assistant":
                if not message.calls and ANSWERED.match(message.text):
                    return True
                if _STEP.match(message.text):
                    return False
        return False

    @cached_property
    def _results_since(self) -> list[ToolResult]:
        """The results since the plan."""
        return [*_results(self.since)]

    # The list

    @cached_property
    def board(self) -> tuple[Entry, ...]:
        """The todo list as last seen in this conversation."""
        return self._told or _newest_listing(self.messages) or ()

    @cached_property
    def fresh_board(self) -> tuple[Entry, ...] | None:
        """The todo list as seen since its last text-only reply, or None if not seen."""
        return self._told or _newest_listing(self.since_words)

    @cached_property
    def since_words(self) -> list[Message]:
        """The messages after its last text-only reply."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].role == "assistant" and not self.messages[index].calls:
                return self.messages[index + 1 :]
        return self.messages

    @cached_property
    def own(self) -> dict[int, Entry]:
        """Its steps' entries on the todo list, by index of the step. If titles are equal, the last ones are its own.

        Before it has added its steps as todos, only open todos left by an earlier run of the conversation count.
        """
        if not (self.keeps_list or self.attempts_at_list):
            return {}
        by_title: dict[str, list[Entry]] = {}
        for entry in self.board:
            if entry.is_open or self.attempts_at_list:
                for title in entry.titles:
                    by_title.setdefault(title, []).append(entry)
        own: dict[int, Entry] = {}
        used_ids: set[int] = set()
        for index in range(len(self.steps) - 1, -1, -1):
            entries = by_title.get(short_title(self.steps[index].title), [])
            while entries and entries[-1].id in used_ids:
                entries.pop()
            if entries:
                own[index] = entries.pop()
                used_ids.add(own[index].id)
        return own

    @cached_property
    def attempts_at_list(self) -> int:
        """Number of its attempts to add its steps as todos."""
        replies = (message for message in self.since if message.role == "assistant")
        asked = [call for message in replies for call in message.calls if call.name == TODO_TOOL]
        return sum(isinstance(call.arguments, dict) and call.arguments.get("operation") in _MAKES_LIST for call in asked)

    @property
    def list_due(self) -> bool:
        """True if it still has to add its steps, or the missing ones, as todos; it makes at most two attempts."""
        if not self.keeps_list or self.made or self.attempts_at_list >= 2:
            return False
        return not self.own and bool(self.steps) if self.attempts_at_list else len(self.own) < len(self.steps)

    @cached_property
    def unmarked(self) -> list[Entry]:
        """Open todos of steps it has made, in the order of the steps, excluding failed ones that it has marked as blocked."""
        steps = [index for index in self.made if index in self.own and self.own[index].is_open]
        return [self.own[index] for index in steps if index not in self.failed or self.own[index].status != "blocked"]

    @cached_property
    def failed(self) -> dict[int, str]:
        """Steps whose calls all failed, each with the reason: ``save failed``, ``save was rejected``."""
        if not any(result.is_error for result in self._results_since):  # as in nearly all rounds
            return {}
        results = {result.call_id: result for result in self._results_since}
        failed: dict[int, str] = {}
        for move in self._moves:
            came = [result for result in _results_of(move.message, results) if result.error_code != DUPLICATE]
            if _all_failed(came):
                failed[move.place] = f"{', '.join(dict.fromkeys(result.name for result in came))} {failure_word(came)}"
            elif came:
                failed.pop(move.place, None)
        return failed

    def why_failed(self, entry: Entry) -> str:
        """Return the reason why the step of this todo failed; empty if it did not."""
        return next((reason for index, reason in self.failed.items() if self.own.get(index) == entry), "")

    @cached_property
    def titles_done(self) -> set[str]:
        """Titles of all steps it has made in this conversation, including those of earlier plans, unless every call failed."""
        results = {result.call_id: result for result in _results(self.messages)}
        done = (message for message in self.messages if message.calls and not _all_failed(_results_of(message, results)))
        return {short_title(match[2]) for message in done if (match := _STEP.match(message.text))}

    @cached_property
    def todos_worked_on(self) -> set[int]:
        """Ids of todos outside its plan for which it has made calls since its last text-only reply."""
        matches = (_TODO.match(message.text) for message in self.since_words if message.calls)
        return {int(match[1]) for match in matches if match}

    def has_asked(self, call: ToolCall) -> bool:
        """Return whether the same call was made since its last text-only reply."""
        replies = (message for message in self.since_words if message.role == "assistant")
        return any(call.name == past.name and call.arguments == past.arguments for message in replies for past in message.calls)

    @cached_property
    def results(self) -> list[ToolResult]:
        """Results of its steps' calls."""
        working = {call.name for step in self.steps for call in step.calls}
        return [
            result
            for result in self._results_since
            if (result.name in working or role_of(result.name) == "work") and result.error_code != DUPLICATE
        ]


def _without_reminder(messages: Sequence[Message]) -> tuple[list[Message], str]:
    """Return the conversation without the reminders in its last message, and their text."""
    if not messages:
        return [], ""
    last = messages[-1]
    reminders = {
        index: m[1] for index, part in enumerate(last.parts) if type(part) is Text and (m := _REMINDER.fullmatch(part.text))
    }
    kept = tuple(part for index, part in enumerate(last.parts) if index not in reminders)
    whole = [*messages]
    whole[-1] = Message(last.role, kept)
    return whole, "\n".join(reminders.values())


def _since_plan(messages: Sequence[Message]) -> tuple[tuple[PlanItem, ...], list[Message]]:
    """Return the plan, from the newest message by others that has a list, and the messages after it.

    Messages without a list do not change the plan.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role != "assistant" and (text := message.text) and (plan := read_plan(text)):
            return plan, list(messages[index + 1 :])
    return (), list(messages)


def steps_of(plan: tuple[PlanItem, ...], tools: Arguments) -> tuple[Step, ...]:
    """Return the items of a plan that have calls to these tools."""
    return _steps_of(plan, tuple(tools.items()))


@lru_cache(maxsize=64)  # a plan is read again in each round
def _steps_of(plan: tuple[PlanItem, ...], tools: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[Step, ...]:
    arguments = dict(tools)
    items = ((item.title.rstrip("."), tuple(calls_of(item, arguments))) for item in plan)
    return tuple([Step(title, calls) for title, calls in items if calls])


def _results(messages: Iterable[Message]) -> Iterator[ToolResult]:
    for message in messages:
        for part in message.parts:
            if type(part) is ToolResult:
                yield part


def failure_word(results: Iterable[ToolResult]) -> str:
    """Return ``was rejected`` if each of these calls that failed was denied, otherwise ``failed``."""
    return "was rejected" if {result.error_code for result in results if result.is_error} == {DENIED} else "failed"


def _results_of(message: Message, results: Mapping[str, ToolResult]) -> list[ToolResult]:
    """Return the results of a message's calls other than todo calls."""
    return [results[call.id] for call in message.calls if call.id in results and call.name != TODO_TOOL]


def _all_failed(results: Sequence[ToolResult]) -> bool:
    """Return whether there are results, and each is a failure other than a blocked duplicate."""
    return bool(results) and all(result.is_error and result.error_code != DUPLICATE for result in results)


def _newest_listing(messages: Iterable[Message]) -> tuple[Entry, ...] | None:
    # A blocked duplicate call shows the list as it was at the earlier call.
    for message in reversed([*messages]):
        for result in reversed([*_results([message])]):
            if result.name == TODO_TOOL and result.error_code != DUPLICATE:
                entries = read_listing(result.text)
                if entries is not None:
                    return entries
    return None
