"""From the run so far to the request that is sent: the only place where messages are prepared.

Work a round depends on what is new, not on the length of the history: the prepared list grows with the run,
and only its last message can still change.
"""

from __future__ import annotations

from typing import Any

from agentnb.agent.guidance.reminder import system_reminder
from agentnb.core.messages import AnyPart, Message, Text
from agentnb.core.request import Request, Sent
from agentnb.core.run import Run
from agentnb.core.tool_spec import ToolSpec


class Conversation:
    """The messages of one run as they are sent: assistant and others alternate, nothing is empty."""

    def __init__(self, system: str, tools: tuple[ToolSpec, ...], settings: dict[str, Any], *, drops_text: bool = False) -> None:
        self._system = system
        self._tools = tools
        self._settings = settings
        self._drops_text = drops_text
        self._messages: list[Message] = []
        self._kept: dict[Any, Any] = {}
        self._taken = 0
        self._sent = 0

    def request(self, run: Run, said_in_passing: str = "") -> Request:
        """The request for the open round. What is said in passing stands at its end, and in no later request."""
        stored = run.messages
        for index in range(self._taken, len(stored)):
            if not self.leaves_out(stored[index], run):
                self._add(stored[index])
        self._taken = len(stored)
        self._sent = len(self._messages)
        last = self._with(said_in_passing) if said_in_passing else None
        messages = Sent(self._messages, self._sent, last, self._kept)
        return Request(self._system, messages, self._tools, self._settings)

    def leaves_out(self, message: Message, run: Run) -> bool:
        """Whether these are words that workflow mode went on from, and that are not to be sent again."""
        if not self._drops_text or message.role != "assistant" or message.calls:
            return False
        return run.open_round is not None and run.open_round.reason == "workflow_mode"

    def _with(self, said_in_passing: str) -> Message:
        """The last message of the request, which is never the assistant's, with the reminder as a part of its own."""
        last = self._messages[-1]
        return Message(last.role, (*last.parts, Text(system_reminder(said_in_passing))))

    def _add(self, message: Message) -> None:
        parts = tuple([part for part in message.parts if not is_empty(part)])
        if not parts:
            return
        if len(parts) < len(message.parts):
            message = Message(message.role, parts)
        last = self._messages[-1] if self._messages else None
        if last is None or (last.role == "assistant") != (message.role == "assistant"):
            self._messages.append(message)
            return
        if self._sent == len(self._messages):
            # Requests already sent are views of this list: what they show must not change.
            self._messages = self._messages.copy()
        self._messages[-1] = merged(last, message)


def is_empty(part: AnyPart) -> bool:
    """Whether there is nothing in it to send; what a provider wants back is something."""
    return type(part) is Text and not part.text.strip() and part.provider_metadata is None


def merged(first: Message, second: Message) -> Message:
    """Two messages of one side as one: all parts in order, texts that meet joined by a blank line."""
    left, right = first.parts, second.parts
    end, start = left[-1], right[0]
    if type(end) is Text and type(start) is Text and not (end.provider_metadata or start.provider_metadata):
        joint: tuple[AnyPart, ...] = (Text(f"{end.text}\n\n{start.text}"),)
        left, right = left[:-1], joint + right[1:]
    role = "tool" if "tool" in (first.role, second.role) else first.role
    return Message(role, left + right)


def said_in_passing(run: Run) -> str:
    """What the model is told for the open round only: guidance in the order it was given, then where the run stands."""
    current = run.open_round
    if current is None or not (current.guidance or current.note):
        return ""
    texts = [guidance.text for guidance in current.guidance]
    return "\n\n".join([*texts, current.note] if current.note else texts)
