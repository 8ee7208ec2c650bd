"""Limits of a run: the table of all limits, their values for one run, and the policies that enforce them.

A limit has one name, shared by its setting, option, stop reason and event. A new one needs a row in `LIMITS`, a field in
`Limits` and in the agent's settings, and its counter: a policy here or, for time and money, the run's clock and budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb import settings
from agentnb.advice import NameOne
from agentnb.core.run.rounds import MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.gates.calls import CallCount
from agentnb.policies.verdict import Policy, Stop

OnLimit: TypeAlias = Literal["stop", "final_answer", "raise"]
"""What happens at a limit: the run ends, the model answers once more without tools, or `RunLimited` is raised."""
ON_LIMIT: tuple[OnLimit, ...] = ("stop", "final_answer", "raise")
MAX_AMOUNT = 1e12
NO_LIMIT = "None sets no limit"


class Limit(NamedTuple):
    """One kind of limit: how its value is read and checked, and its wording."""

    name: str
    unit: str
    """The unit of an amount, such as seconds; empty for a whole number."""
    metavar: str
    """The placeholder for the value in a magic's help."""
    help: str
    word: str
    """The name of what ran out, in a list of runs."""
    maximum: float = MAX_AMOUNT
    is_required: bool = False
    """Whether every run has it; the others may be None."""

    def check(self, value: object) -> None:
        """Raise `SettingsError` if the value is not valid for this limit."""
        if value is None and not self.is_required:
            return
        kind = int | float if self.unit else int
        least_fits = isinstance(value, kind) and not isinstance(value, bool) and (value > 0 if self.unit else value >= 1)
        if not least_fits or (value > self.maximum and (self.unit or self.is_required)):  # type: ignore[operator]  # a number
            raise SettingsError(f"{self.name}={value!r} {self.wrong}", "" if self.is_required else NO_LIMIT)

    def read(self, text: str) -> float | int:
        """Parse a value that the person typed; the ValueError says what is wrong with it."""
        if not self.unit:
            if text.isdecimal() and 1 <= int(text) <= (self.maximum if self.is_required else int(text)):
                return int(text)
            raise ValueError(self.wrong)
        try:
            amount = float(text.removeprefix("$") if self.unit == DOLLARS else text)
        except ValueError:
            amount = 0.0
        if not (isfinite(amount) and amount > 0):
            raise ValueError(self.wrong)
        return amount

    @property
    def wrong(self) -> str:
        """The error text for an invalid value."""
        if self.unit:
            return f"must be a positive {'amount in' if self.unit == DOLLARS else 'number of'} {self.unit}"
        return f"must be a whole number {f'from 1 to {self.maximum:,}' if self.is_required else 'above 0'}"

    @property
    def option(self) -> str:
        """The option that sets it in a cell."""
        return f"--{self.name.replace('_', '-')}"


DOLLARS = "US dollars"
_ROWS = (
    Limit("max_rounds", "", "N", "model calls it may take (default: 50)", "rounds", settings.MAX_ITERATIONS, is_required=True),
    Limit(MAX_TOOL_CALLS, "", "N", "tool calls it may make", "calls"),
    Limit(MAX_TOOL_CALLS_PER_TURN, "", "N", "tool calls it may make since you last spoke", "calls"),
    Limit("max_seconds", "seconds", "SECONDS", "how long it may take, without the time in which it waits for you", "time"),
    Limit("max_tokens", "", "N", "tokens it may use, sent and received", "tokens"),
    Limit("budget", DOLLARS, "USD", "what it may cost, such as 0.5; it also covers runs that its tools start", "budget"),
)
LIMITS = {limit.name: limit for limit in _ROWS}
"""All limits of a run, by name."""
LIMIT_SETTINGS = (*LIMITS, "on_limit")
"""The settings of an agent about its limits."""
SESSION_BUDGET = Limit("session_budget", DOLLARS, "USD", "what all runs of the session may cost", "session")
"""The limit of a whole session."""
OF_FILE = "limits_of_file"
"""The setting of a run that names the limits that only a file sets."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run; None for no limit. Raises `SettingsError` for an invalid value."""

    max_rounds: int
    max_tool_calls: int | None = None
    max_tool_calls_per_turn: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    budget: float | None = None
    unpriced: bool = False
    """Whether a budget may be given although the model's price is unknown."""
    on_limit: OnLimit = "stop"
    limits_of_file: tuple[str, ...] = ()
    """Names of those that only a file sets: they loosen no budget of the person."""

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            limit.check(getattr(self, name))
        if self.on_limit not in ON_LIMIT:
            raise SettingsError(f"on_limit={self.on_limit!r} is not known", NameOne(known=tuple(ON_LIMIT), lead="It is one of"))

    def policies(self) -> Iterator[Policy]:
        """Yield the policies that end a run at its limits; the run's own clock and budget count time and money."""
        if self._counts_calls:
            yield MaxToolCalls(self.max_tool_calls, self.max_tool_calls_per_turn)
        if self.max_tokens is not None:
            yield MaxTokens(self.max_tokens)
        yield MaxRounds(self.max_rounds)

    def add_to(self, bundle: PolicyBundle, *, counts_rounds: bool = True) -> PolicyBundle:
        """Return the bundle with these limits: policies that are asked last, and a gate that blocks calls above a limit.

        ``counts_rounds``: False for recorded runs of other products, which have no limit on rounds.
        """
        policies = [policy for policy in self.policies() if counts_rounds or not isinstance(policy, MaxRounds)]
        gates = (CallCount(self.max_tool_calls, self.max_tool_calls_per_turn),) if self._counts_calls else ()
        return bundle._replace(policies=(*bundle.policies, *policies), gates=(*gates, *bundle.gates))

    def as_logged(self) -> dict[str, Any]:
        """Return the limits that are set, as plain data."""
        logged = {name: value for name in LIMITS if (value := getattr(self, name)) is not None}
        if self.unpriced:
            logged["unpriced"] = True
        if self.limits_of_file:
            logged[OF_FILE] = list(self.limits_of_file)
        return logged if self.on_limit == "stop" else {**logged, "on_limit": self.on_limit}

    @staticmethod
    def logged(run_settings: dict[str, Any]) -> dict[str, Any]:
        """Return the limits from the settings of a logged run, by the names of an agent's settings."""
        return {name: run_settings[name] for name in (*LIMIT_SETTINGS, "unpriced", OF_FILE) if name in run_settings}

    @property
    def _counts_calls(self) -> bool:
        return self.max_tool_calls is not None or self.max_tool_calls_per_turn is not None


@dataclass(frozen=True, slots=True)
class MaxRounds:
    """A limit on rounds. The run keeps everything so far; ``--continue`` continues from there."""

    limit: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop after that many rounds."""
        return Stop("max_rounds", "limited", limit=self.limit) if run.last_round.index + 1 >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxToolCalls:
    """A limit on tool calls: stops when the model asks for more. Allowed calls still run, and it may answer from them."""

    in_run: int | None
    in_turn: int | None

    def __call__(self, run: Run) -> Stop | None:
        """Stop if a call of the last round was blocked because there had been too many."""
        for record in run.last_round.records:
            if record.rule == MAX_TOOL_CALLS:
                return Stop(MAX_TOOL_CALLS, "limited", limit=self.in_run)
            if record.rule == MAX_TOOL_CALLS_PER_TURN:
                return Stop(MAX_TOOL_CALLS_PER_TURN, "limited", limit=self.in_turn)
        return None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """A limit on tokens, sent and received, over all model calls; the last call may exceed it."""

    limit: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop when the tokens of its own model calls are used up."""
        own = run.own_usage
        used = (own.input or 0) + (own.output or 0)
        return Stop("max_tokens", "limited", limit=self.limit) if used >= self.limit else None
