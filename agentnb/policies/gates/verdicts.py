"""Gates and their verdicts: may this call run, must the person be asked, or not at all?"""

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
from agentnb.policies.direct import as_given

MAX_REPEATED = 8_192
"""Characters of an earlier result that a block repeats to the model."""


class Allow(NamedTuple):
    """The call may run without a question: gates after this one cannot ask, but may still deny.

    The permissions are a gate after all others: `Allow` skips what their defaults and the mode ``ask`` would ask about, in the
    outermost run. It lifts no denial, no question of a rule, and none in a nested run, which may no more than that around it.
    """

    rule: str = "allowed"


class Ask(NamedTuple):
    """The person decides whether the call runs, as it is or with other arguments."""

    question: str
    rule: str = "approval"
    """The reason, for the log."""
    approvals: tuple[str, ...] = ()
    """Further answers that approve, such as "always": a gate finds them in the run's events the next time."""


class AskByRules(Ask):
    """The question of a run's permissions: only its answers are grants, whatever the rule of another gate's is called."""

    __slots__ = ()

    is_unclear = False
    """Whether it cannot be known if a rule forbids the call: no grant would lift the question."""


class FirmAsk(AskByRules):
    """The question of a rule, or in a nested run: no gate of an agent lifts it."""

    __slots__ = ()


class AskUnsettled(FirmAsk):
    """The question about a command that is not known as harmless, while a rule forbids others: a grant that names it counts."""

    __slots__ = ()


class AskEachTime(FirmAsk):
    """The question about a call of which it cannot be known if a rule forbids it."""

    __slots__ = ()

    is_unclear = True


class Deny(NamedTuple):
    """The call must not run. The model is told ``reason``, a sentence or more."""

    reason: str
    rule: str = DENIED


class Block(NamedTuple):
    """A call that must not run. The model gets ``result`` instead; ``rule`` names the reason."""

    rule: str
    result: ToolResult
    reason: str = ""
    """Why, for a person, without advice to a model."""


Verdict: TypeAlias = Allow | Ask | Deny | Block | None
"""What a gate says of a call; None: it has nothing to say, and lets it pass."""
Gate: TypeAlias = Callable[[ToolCall, Run], Verdict]
"""A pure function of the call and the run so far."""


def as_copy(call: ToolCall) -> ToolCall:
    """Return the call with arguments of its own, for code that may change them in place: that changes nothing of what runs."""
    return replace(call, arguments=msgspec.to_builtins(call.arguments))


@dataclass(frozen=True, slots=True, repr=False)
class OnCopy:
    """A gate that is not agentnb's own, and so gets a copy of each call."""

    gate: Gate

    def __call__(self, call: ToolCall, run: Run) -> Verdict:
        """Return the verdict of the gate."""
        return self.gate(as_copy(call), run)

    def __repr__(self) -> str:
        return repr(self.gate)


def judge(gates: Iterable[Gate], call: ToolCall, run: Run) -> Ask | Block | None:
    """Return what all gates together say: a block, a question to the person, or None to run the call.

    The first `Deny` or `Block` wins over anything that other gates say, before or after it. Without one, the first `Allow` or
    `Ask` decides, but an `Allow` lifts no `FirmAsk`. Raises `SettingsError` if a gate returns anything else.
    """
    first: Allow | Ask | None = None
    for gate in gates:
        verdict: Any = gate(call, run)  # a gate may be anybody's
        if verdict is None:
            continue
        if isinstance(verdict, Block):
            return verdict
        if isinstance(verdict, Deny):
            return denied(call, verdict.rule, verdict.reason)
        if not isinstance(verdict, Allow | Ask) or isinstance(getattr(verdict, "approvals", None), str):
            hint = "A gate returns Allow(), Ask(QUESTION), Deny(REASON) or None; the approvals of an Ask are a tuple"
            raise SettingsError(f"The gate {as_given(gate)!r} returned {verdict!r}, which is not a verdict", hint)
        if first is None or (isinstance(first, Allow) and isinstance(verdict, FirmAsk)):
            first = verdict
    return first if isinstance(first, Ask) else None


def denied(call: ToolCall, rule: str, reason: str) -> Block:
    """Return the block for a call that a gate or the person denied."""
    words = "Do not try the same in another way. Go on without it, or say what you need."
    text = f"{DENIED}: {call.name} was not run: {reason}\n{words}"
    return Block(rule, ToolResult(call.id, call.name, (Text(encodable(text)),), is_error=True, error_code=DENIED), reason)


def blocked_as_duplicate(call: ToolCall, rule: str, why: str, last: ToolResult | None) -> Block:
    """Return a block with the marker and the earlier result of the same call."""
    if last is None:
        advice = "Wait for the result of the first one."
    elif last.is_error:
        advice = "Change the arguments, or use another tool. It has only failed so far, the last time with:"
    else:
        advice = "Use its result, or do something else. The result of that call was:"
    text = f"{DUPLICATE}: {call.name} was not run again, because {why}. {advice}"
    before = last.parts if last is not None else ()
    # No pictures: the model has seen them, and the text beside them describes them.
    parts = (Text(text), *[_shortened(part) for part in before if isinstance(part, Text)])
    return Block(rule, ToolResult(call.id, call.name, parts, is_error=True, error_code=DUPLICATE))


def _shortened(part: Text) -> Text:
    """Shorten a long result: the model has all of it further up, and repeats must not fill the request."""
    if len(part.text) <= MAX_REPEATED:
        return part
    return Text(f"{part.text[:MAX_REPEATED]} … ({len(part.text) - MAX_REPEATED:,} more characters, as in that result)")
