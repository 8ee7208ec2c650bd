"""Gates and their verdicts: whether a call runs, is asked about, or is denied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import Text, ToolCall, ToolResult, encodable
from agentnb.core.run.rounds import DENIED, DUPLICATE
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.bound_calls import unbind_call

MAX_REPEATED = 8_192
"""Maximum number of characters of an earlier result that a block repeats."""


class Allow(NamedTuple):
    """The call may run without a question: later gates cannot ask, but may still deny.

    The permissions are a gate after all others: in the outermost run, `Allow` skips the questions of their defaults and of the
    mode ``ask``. Denials and questions from rules remain, as do questions in nested runs, which may do no more than their
    parents.
    """

    rule: str = "allowed"


class Ask(NamedTuple):
    """The person decides whether the call runs, unchanged or with other arguments."""

    question: str
    rule: str = "approval"
    """Reason for the question, for the log."""
    approvals: tuple[str, ...] = ()
    """Further approving answers, such as "always"; a gate can find them later in the run's events."""


class AskByRules(Ask):
    """A question asked by a run's permissions. Only its answers are grants, even if another gate's rule has the same name."""

    __slots__ = ()

    is_unclear = False
    """True if a rule may forbid the call; no grant then lifts the question."""


class FirmAsk(AskByRules):
    """A question asked by a rule or in a nested run, which none of the agent's gates can lift."""

    __slots__ = ()


class AskUnsettled(FirmAsk):
    """A question about a command not known to be harmless, where a rule forbids other commands. Grants for it count."""

    __slots__ = ()


class AskEachTime(FirmAsk):
    """A question about a call that a rule may forbid."""

    __slots__ = ()

    is_unclear = True


class Deny(NamedTuple):
    """The call must not run. The model gets ``reason``, one or more sentences."""

    reason: str
    rule: str = DENIED


class Block(NamedTuple):
    """The call must not run. The model gets ``result`` instead; ``rule`` names the reason."""

    rule: str
    result: ToolResult
    reason: str = ""
    """Reason for the person, without advice to the model."""


Verdict: TypeAlias = Allow | Ask | Deny | Block | None
"""Verdict of a gate. With None, the gate lets the call pass."""
Gate: TypeAlias = Callable[[ToolCall, Run], Verdict]
"""A pure function of the call and the run so far."""


def as_copy(call: ToolCall) -> ToolCall:
    """Return the call with its own arguments, so that code that modifies them does not affect the call."""
    return replace(call, arguments=msgspec.to_builtins(call.arguments))


@dataclass(frozen=True, slots=True, repr=False)
class OnCopy:
    """Wraps a third party's gate, passing it a copy of each call."""

    gate: Gate

    def __call__(self, call: ToolCall, run: Run) -> Verdict:
        """Return the verdict of the gate."""
        return self.gate(as_copy(call), run)

    def __repr__(self) -> str:
        return repr(self.gate)


def judge(gates: Iterable[Gate], call: ToolCall, run: Run) -> Ask | Block | None:
    """Combine the verdicts of all gates: a block, a question to the person, or None to run the call.

    The first `Deny` or `Block` overrides all other verdicts. Without one, the first `Allow` or `Ask` decides, but `Allow` does
    not lift a `FirmAsk`. Raises `SettingsError` for any other value.
    """
    first: Allow | Ask | None = None
    for gate in gates:
        verdict: Any = gate(call, run)  # a gate may be third-party code
        if verdict is None:
            continue
        if isinstance(verdict, Block):
            return verdict
        if isinstance(verdict, Deny):
            return deny(call, verdict.rule, verdict.reason)
        if not isinstance(verdict, Allow | Ask) or isinstance(getattr(verdict, "approvals", None), str):
            hint = "A gate returns Allow(), Ask(QUESTION), Deny(REASON) or None"
            hint = "approvals= of an Ask is a tuple" if isinstance(verdict, Ask) else hint
            raise SettingsError(f"The gate {unbind_call(gate)!r} returned {verdict!r}, which is not a verdict", hint)
        if first is None or (isinstance(first, Allow) and isinstance(verdict, FirmAsk)):
            first = verdict
    return first if isinstance(first, Ask) else None


def deny(call: ToolCall, rule: str, reason: str) -> Block:
    """Return the block for a call denied by a gate or the person."""
    words = "Do not try to do the same another way. Continue without it, or say what you need."
    text = f"{DENIED}: {call.name} was not run: {reason}\n{words}"
    return Block(rule, ToolResult(call.id, call.name, (Text(encodable(text)),), is_error=True, error_code=DENIED), reason)


def blocked_as_duplicate(call: ToolCall, rule: str, why: str, last: ToolResult | None) -> Block:
    """Return a block with the marker and the earlier result of the same call."""
    if last is None:
        advice = "Wait for the result of the first call."
    elif last.is_error:
        advice = "Change the arguments, or use another tool. Every attempt so far has failed, most recently with:"
    else:
        advice = "Use its earlier result, or do something else. The result was:"
    text = f"{DUPLICATE}: {call.name} was not run again, because {why}. {advice}"
    before = last.parts if last is not None else ()
    # No pictures: the model has seen them, and their text describes them.
    parts = (Text(text), *[_truncate(part) for part in before if isinstance(part, Text)])
    return Block(rule, ToolResult(call.id, call.name, parts, is_error=True, error_code=DUPLICATE))


def _truncate(part: Text) -> Text:
    """Truncate a long result: the model already has it in an earlier message, and repeats must not fill the request."""
    if len(part.text) <= MAX_REPEATED:
        return part
    return Text(f"{part.text[:MAX_REPEATED]} … ({len(part.text) - MAX_REPEATED:,} more characters, as in the earlier result)")
