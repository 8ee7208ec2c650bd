"""Verdicts of policies, and the choice among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.advice import Advised
from agentnb.core.guidance import Guidance
from agentnb.core.log.event import ENDS, RoundStatus, Status
from agentnb.core.log.events import Topic
from agentnb.core.messages import encodable
from agentnb.core.questions import WaitingOnUser
from agentnb.core.todos import format_list, has_open, open_todos
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.bound_calls import unbind_call
from agentnb.tools.tool import CallServices

MAX_LEVEL = 100
"""Maximum level of guidance; the built-in sets have three."""
MAX_LISTED = 40
"""Maximum number of open todos listed in a warning."""


class Continue(msgspec.Struct, frozen=True, gc=False):
    """Another round, with its reason. All limits apply to it.

    ``message``, by default the built-in prompt ``continue``, is sent to the model if nothing else asks it to continue;
    ``guidance`` is sent with the next request, before that of the guides.
    """

    reason: str
    message: str | None = None
    guidance: tuple[Guidance, ...] = ()
    round_status: RoundStatus = ""
    """Changed status of the finished round, if any."""
    is_news: bool = False
    """For an ending: True to send the message in every case, because the model gets its content nowhere else."""


class LoopFinding(NamedTuple):
    """A loop in a run: the rule that detected it, its first and last round, and a sentence about it."""

    rule: str
    first: int
    last: int
    sentence: str


class Stop(msgspec.Struct, frozen=True):
    """End of the run, with its ``stop_reason`` and ``status``."""

    stop_reason: str
    status: Status = "completed"
    limit: float | None = None
    """Value of the limit, if one was reached."""
    problem: str = ""
    hint: Advised = ""
    """For a failed run: ``problem`` is the cause, ``hint`` the advice."""
    loop: LoopFinding | None = None
    """Loop that ended the run, if any."""
    warning: str = ""
    """Warning for the person, regardless of how the run ends."""
    topic: Topic = ""
    """Subject of the warning."""
    round_status: RoundStatus = ""
    """Changed status of the last round, if any."""


AskBetween: TypeAlias = Callable[[WaitingOnUser], Awaitable[Any]]
"""Asks the person between rounds and returns the answer, a `NoAnswer` if they declined, or None if they wrote something else.

Without a person to answer, the run is suspended.
"""


class Interlude(msgspec.Struct, frozen=True):
    """Work between two rounds without the model, such as a question to the person and the handling of the answer.

    After it, the policies decide again.
    """

    place: str
    """Path of the step to which its questions belong."""
    work: Callable[[CallServices, AskBetween], Awaitable[None]]


Verdict: TypeAlias = Continue | Stop
Policy: TypeAlias = Callable[[Run], "Verdict | None"]
Ending: TypeAlias = Callable[[Run], "Continue | Interlude | None"]
"""Returns work or a round to be done before a run completes, or None."""


def reason_of(verdict: Verdict) -> str:
    """Return the reason for the next round, or the stop reason."""
    return verdict.reason if isinstance(verdict, Continue) else verdict.stop_reason


@dataclass(frozen=True, slots=True)
class OnTextOnly:
    """Policies that apply only to a text-only reply, called in order."""

    policies: tuple[Policy, ...]

    def __call__(self, run: Run) -> Verdict | None:
        """Return the first verdict of these policies."""
        if run.last_round.records:
            return None
        for policy in self.policies:
            verdict = policy(run)
            if verdict is not None:
                return verdict
        return None


def after_calls(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return the policies that apply to a reply with tool calls."""
    return tuple([policy for policy in policies if not isinstance(policy, OnTextOnly)])


def decide(policies: Iterable[Policy], run: Run) -> Verdict:
    """Return the first verdict of the policies; if there is none, the run continues.

    A limit also stops a run that another policy would continue. A stop while todos are open warns about them. Raises
    `SettingsError` for a verdict that cannot be logged.
    """
    first: Verdict | None = None
    for policy in policies:
        verdict = policy(run)
        if verdict is None:
            continue
        check_verdict(verdict, unbind_call(policy))
        if isinstance(verdict, Stop) and (first is None or verdict.limit is not None):
            return _with_todo_warning(verdict, run)
        first = first or verdict
    return first or Continue("tool_results" if run.last_round.records else "said")


def before_end(verdict: Verdict, endings: Iterable[Ending], policies: Iterable[Policy], run: Run) -> Verdict | Interlude:
    """Return the verdict, or the work or round that an ending adds before the run completes. Limits also stop such a round.

    News also reaches the model in a run that continues because the person has written.
    """
    if isinstance(verdict, Continue):
        return (news_of(endings, run) or verdict) if run.pending else verdict
    if verdict.status != "completed":
        return verdict
    asked = (ending(run) for ending in endings)
    first: Verdict | Interlude | None = next((outcome for outcome in asked if outcome is not None), None)
    if isinstance(first, Continue):
        return reached_limit(policies, run) or first
    return verdict if first is None else first


def news_of(endings: Iterable[Ending], run: Run) -> Continue | None:
    """Return the first round that one of these endings adds with news for the model, or None."""
    asked = (ending(run) for ending in endings)
    return next((outcome for outcome in asked if isinstance(outcome, Continue) and outcome.is_news), None)


def reached_limit(policies: Iterable[Policy], run: Run) -> Stop | None:
    """Return the verdict of the first policy whose limit is reached, or None."""
    verdicts = (policy(run) for policy in policies)
    return next((verdict for verdict in verdicts if isinstance(verdict, Stop) and verdict.limit is not None), None)


def check_verdict(verdict: Any, source: Any) -> None:
    """Raise `SettingsError` unless this is a valid verdict for the end of a round or run; ``source``: the policy that returned
    it.
    """
    if isinstance(verdict, Stop) and verdict.status in ENDS:
        reason: Any = verdict.stop_reason
    elif isinstance(verdict, Continue):
        reason = verdict.reason
        for guidance in verdict.guidance:
            check_guidance(guidance, source)
    else:
        wrong = f"Stop(status={verdict.status!r})" if isinstance(verdict, Stop) else repr(verdict)
        hint = f"Return Continue(REASON), Stop(REASON) or None; the status of a Stop is {', '.join(sorted(ENDS))}"
        raise SettingsError(f"{source!r} returned {wrong}, which is not a verdict", hint)
    if not isinstance(reason, str) or not isinstance(verdict.round_status, str) or verdict.round_status == "running":
        details = f"the reason {reason!r} and the round status {verdict.round_status!r}"
        raise SettingsError(
            f"{source!r} returned a verdict with {details}", 'Both must be strings, and the round status must not be "running"'
        )


def check_guidance(guidance: Any, source: Any) -> None:
    """Raise `SettingsError` for guidance that cannot be logged; ``source``: the function that returned it."""
    if not isinstance(guidance, Guidance):
        raise SettingsError(f"{source!r} returned {guidance!r} as guidance", "Return Guidance(SET, CELL, TEXT)")
    texts = (guidance.set, guidance.cell, guidance.text, guidance.trigger, guidance.version)
    if not all(isinstance(text, str) and text == encodable(text) for text in texts):
        raise SettingsError(f"{source!r} returned guidance with text that cannot be logged", "Use valid Unicode text")
    if type(guidance.level) is not int or not 1 <= guidance.level <= MAX_LEVEL:
        raise SettingsError(f"{source!r} returned guidance of level {guidance.level!r}", f"Levels range from 1 to {MAX_LEVEL}")


def _with_todo_warning(stop: Stop, run: Run) -> Stop:
    if stop.warning or not run.todos or not has_open(run.todos):
        return stop
    remaining = open_todos(run.todos)
    noun = "1 todo is" if len(remaining) == 1 else f"{len(remaining)} todos are"
    return replace(stop, warning=f"{noun} still open:\n{format_list(remaining, MAX_LISTED)}", topic="todos")
