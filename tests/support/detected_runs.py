"""Runs told call by call, for detectors: what was called, and what came back."""

from __future__ import annotations

from typing import Any, Self

from run_builder import RunBuilder

from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.detect import Finding, findings


class Calls(RunBuilder):
    """Adds rounds of calls with their results, and replies."""

    def call(self, name: str = "look", text: str = "ok", *, error: str = "", thought: str = "", **arguments: Any) -> Self:
        """A round with one call and its result; ``error`` is its error code."""
        parts = [Thinking(thought)] if thought else []
        return self.round(*parts, ToolCall(name, arguments), text=text, error_code=error)

    def batch(self, *names: str, text: str = "ok") -> Self:
        """A round with a call of each of these tools."""
        return self.round(*[ToolCall(name, {}) for name in names], text=text)

    def reply(self, text: str = "Well.", author: str = "", reason: str = "continued") -> Self:
        """A round without a call."""
        index = self.round_count
        message = Message("assistant", (Text(text),), author)
        self.add(e.RoundStarted, index=index, reason="prompt" if not index else reason)
        return self.add(e.ModelReplied, message=message).add(e.RoundFinished, index=index, status="success")

    def say(self, text: str = "And now?", author: str = "") -> Self:
        """The person speaks, or another agent in the person's place."""
        message = Message("user", (Text(text),), author)
        return self.add(e.CommandReceived, command="say", text=text, message=message)

    def found(self, detectors: Any = "default") -> list[Finding]:
        """What detectors find in it."""
        return findings(self.run, detectors)

    def rules(self, detectors: Any = "default") -> list[str]:
        """The rules by which something was found, each once."""
        return list(dict.fromkeys(one.rule for one in self.found(detectors)))
