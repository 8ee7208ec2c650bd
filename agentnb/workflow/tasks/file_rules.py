"""The gate of a task file's approval rules."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.policies.gates import Ask, Deny
from agentnb.policies.permissions.gate import shown
from agentnb.policies.permissions.rules import Rule


@dataclass(frozen=True, slots=True)
class FileRules:
    """The gate of a task file's approval rules."""

    rules: tuple[Rule, ...]

    def __call__(self, call: ToolCall, run: Run) -> Ask | Deny | None:
        """Return the question about the call, the denial, or None for a call that may run."""
        verdict = next((rule.verdict for rule in self.rules if rule.is_about(call.name, None)), "allow")
        if verdict == "deny":
            return Deny("the approval rules of the task file do not allow it")
        if verdict == "ask":  # about each call: "always" is no answer
            return Ask(f"May the task {call.id} call {call.name} with {shown(call.arguments)}?")
        return None
