"""Built-in policies by name: `Matrix` keeps an agent to its list, `Minimal` trusts the model, `Chat` takes a single turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from agentnb.core.messages import JsonObject
from agentnb.core.run.rounds import FINAL_ANSWER
from agentnb.errors import SettingsError, suggest_names
from agentnb.guidance.guides import AlreadySaid, FailedTools, FourCells, TodoNews, where_it_stands
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.continuation import Complete, GoOn, WorkflowMode, stuck
from agentnb.policies.ending import (
    call_announced,
    call_in_words,
    empty_answer,
    natural_stop,
    no_call_came,
    no_room,
    paused,
    person_spoke,
    refused,
    reply_cut,
    two_empty_answers,
)
from agentnb.policies.gates import BatchGuard, DuplicateGuard, OnCopy
from agentnb.policies.interventions import OpenTodos, TodoNudges
from agentnb.policies.loop_policies import OnlyBlockedCalls, PlanningLoop, SaidTooOften
from agentnb.policies.verdict import OnTextOnly, Policy

USUAL_GUARD = DuplicateGuard()
BROKEN_REPLIES = OnTextOnly((refused, no_room, reply_cut, paused, no_call_came))


@dataclass(frozen=True, slots=True)
class Matrix:
    """Guidance in every round, interventions for open todos, markers and loop detection: the documented behaviour.

    ``intervention_cap``: interventions in a row before the run stops. ``planning_rounds``: planning-only rounds without an
    intervention. ``workflow_mode``: text-only replies do not end the run, ``workflow_cap`` times in a row; with
    ``workflow_drops_text``, the next request omits them, so that they are not repeated. ``strict_todos``: completion with open
    todos is refused once. ``repeats``: number of repeated answers that form a loop. ``blocked_rounds``: number of consecutive
    rounds with all calls blocked that form a loop. ``guard``: the duplicate-call guard, or None.
    """

    name: ClassVar[str] = "matrix"
    intervention_cap: int = 5
    planning_rounds: int = 3
    workflow_mode: bool = False
    workflow_cap: int = 5
    workflow_drops_text: bool = False
    strict_todos: bool = False
    repeats: int = 3
    blocked_rounds: int = 5
    guard: DuplicateGuard | None = USUAL_GUARD

    def __post_init__(self) -> None:
        _check_counts(self)

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the functions that the loop calls, in the documented order: markers, todos, workflow mode, natural stop."""
        todos = OpenTodos(self.intervention_cap, self.planning_rounds)
        modes = (WorkflowMode(self.workflow_cap),) if self.workflow_mode else ()
        return PolicyBundle(
            (
                person_spoke,
                BROKEN_REPLIES,
                Complete(self.strict_todos, self.intervention_cap),
                stuck,
                OnlyBlockedCalls(self.blocked_rounds),
                PlanningLoop(self.planning_rounds, self.intervention_cap),
                OnTextOnly((SaidTooOften(self.repeats), empty_answer, call_in_words, call_announced, GoOn(self.workflow_cap))),
                OnTextOnly((todos, two_empty_answers, *modes, natural_stop)),
                *limits,
            ),
            (TodoNews(), AlreadySaid(), FailedTools(), FourCells()),
            _guards(self.guard, repeatable),
            markers=True,
            note=where_it_stands,
        )


@dataclass(frozen=True, slots=True)
class Minimal:
    """Tool calls continue the run, text-only replies end it: no guidance cells, no levels, no markers.

    ``todo_nudges``: nudges per run while todos are open. ``batches``: number of identical batches of calls in a row at which
    the last is blocked. ``blocked_rounds``: number of consecutive rounds with all calls blocked that form a loop. ``guard``:
    the duplicate-call guard, or None.
    """

    name: ClassVar[str] = "minimal"
    todo_nudges: int = 3
    batches: int = 3
    blocked_rounds: int = 2
    guard: DuplicateGuard | None = USUAL_GUARD

    def __post_init__(self) -> None:
        _check_counts(self)

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the functions that the loop calls."""
        exempt = frozenset(repeatable) | (self.guard.exempt if self.guard is not None else frozenset())
        return PolicyBundle(
            (
                person_spoke,
                BROKEN_REPLIES,
                OnlyBlockedCalls(self.blocked_rounds),
                OnTextOnly((empty_answer, call_in_words, call_announced)),
                OnTextOnly((TodoNudges(self.todo_nudges), two_empty_answers, natural_stop)),
                *limits,
            ),
            guides=(TodoNews(),),
            gates=(*_guards(self.guard, repeatable), BatchGuard(self.batches, exempt)),
        )


@dataclass(frozen=True, slots=True)
class Chat:
    """A single turn of a conversation: a text reply ends it, even while todos are open.

    At a limit, the model answers once more without tools. Agents that set no limits of their own get
    ``max_tool_calls_per_turn``, and ``max_seconds`` (excluding waits for the person). ``tool_seconds``: default time limit of
    tool calls, except nested runs; unlimited if None. ``blocked_rounds`` and ``guard`` as for `Minimal`.
    """

    name: ClassVar[str] = "chat"
    max_tool_calls_per_turn: int | None = 8
    max_seconds: float | None = 90
    tool_seconds: float | None = 30
    blocked_rounds: int = 2
    guard: DuplicateGuard | None = USUAL_GUARD

    def __post_init__(self) -> None:
        _check_counts(self)

    @property
    def agent_settings(self) -> Mapping[str, Any]:
        """Limits for agents that set none of their own."""
        limits = {"max_tool_calls_per_turn": self.max_tool_calls_per_turn, "max_seconds": self.max_seconds}
        return {**limits, "on_limit": FINAL_ANSWER}

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the functions that the loop calls."""
        return PolicyBundle(
            (
                person_spoke,
                BROKEN_REPLIES,
                OnlyBlockedCalls(self.blocked_rounds),
                OnTextOnly((empty_answer, call_in_words, two_empty_answers, natural_stop)),
                *limits,
            ),
            guides=(TodoNews(),),
            gates=_guards(self.guard, repeatable),
            tool_seconds=self.tool_seconds,
        )


class PolicySet(Protocol):
    """A policy of an agent: a name, and the functions that the loop calls. Any object with these two members is accepted.

    An optional ``agent_settings`` holds limits, by name, for agents that set none of their own.
    """

    name: ClassVar[str]

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the functions that the loop calls; ``repeatable`` names tools that may repeat.

        ``words``: the guidance set of the agent. A run may change its set; guides and policies read it from the run.
        ``limits``: policies to call last. An agent passes none: it adds its limits to the bundle afterwards.
        """


OWN_POLICY = "class"
"""Log key of the class of a third-party policy."""
USUAL_POLICY = "matrix"
_AMOUNTS: JsonObject = {"max_tool_calls_per_turn": int, "max_seconds": int | float, "tool_seconds": int | float}
"""Types of the settings that may be None, meaning unlimited."""
NAMED: dict[str, type[Matrix] | type[Minimal] | type[Chat]] = {"matrix": Matrix, "minimal": Minimal, "chat": Chat}


def find_policy(policy: str | PolicySet) -> PolicySet:
    """Return the policy with this name, or the passed policy itself. Raises `SettingsError` with the known names."""
    if not isinstance(policy, str | type) and callable(getattr(policy, "rules", None)) and hasattr(policy, "name"):
        return policy
    if not isinstance(policy, str):
        hint = f"Use a policy name ({', '.join(NAMED)}) or a policy object such as Matrix(...)"
        raise SettingsError(f"policy={policy!r} is not a policy", hint)
    if policy not in NAMED:
        raise SettingsError(f"There is no policy {policy!r}", suggest_names(policy, NAMED))
    return NAMED[policy]()


def rules_of(policy: PolicySet, words: GuidanceSet, repeatable: Iterable[str]) -> PolicyBundle:
    """Return the policy's bundle, without the limits of the agent. Raises `SettingsError` unless it is a `PolicyBundle`."""
    bundle: Any = policy.rules(words, repeatable=tuple(repeatable))  # possibly the person's own class
    if not isinstance(bundle, PolicyBundle):
        hint = "Return PolicyBundle(policies): from agentnb.policies import PolicyBundle"
        raise SettingsError(f"rules() of the policy {policy.name} returned {bundle!r}, which is not a PolicyBundle", hint)
    if type(policy) not in NAMED.values():
        return bundle._replace(gates=tuple(map(OnCopy, bundle.gates)))
    return bundle


def in_workflow_mode(policy: PolicySet) -> PolicySet:
    """Return the policy with workflow mode enabled. Raises `SettingsError` if it lacks that mode."""
    if not isinstance(policy, Matrix):
        raise SettingsError(f"The policy {policy.name} has no workflow mode", "Use it with -p matrix")
    return replace(policy, workflow_mode=True)


def settings_of(policy: PolicySet) -> JsonObject:
    """Return a policy's name and those of its settings that are plain data; for a third-party policy, also its class."""
    if isinstance(policy, Matrix | Minimal | Chat) and type(policy) in NAMED.values():
        return {**_settings_of_named(policy)}
    kind = type(policy)
    return _settings_of(policy, {"name": policy.name, OWN_POLICY: f"{kind.__module__}.{kind.__qualname__}"})


@lru_cache(maxsize=64)
def _settings_of_named(policy: Matrix | Minimal | Chat) -> JsonObject:
    # Cached: an agent is created for each of many short runs.
    return _settings_of(policy, {"name": policy.name})


def _settings_of(policy: PolicySet, logged: JsonObject) -> JsonObject:
    names: list[str] = [field.name for field in fields(policy)] if is_dataclass(policy) else []
    for name in names:
        with suppress(TypeError):
            logged.setdefault(name, _plain(getattr(policy, name, None)))
    return logged


def policy_as_logged(logged: JsonObject) -> PolicySet:
    """Rebuild the policy described by `settings_of`, ignoring settings unknown to this version."""
    kind = NAMED[logged["name"]]
    values = {field.name: logged[field.name] for field in fields(kind) if field.name in logged}
    if isinstance(guard := values.get("guard"), dict):
        values["guard"] = DuplicateGuard(
            **{field.name: guard[field.name] for field in fields(DuplicateGuard) if field.name in guard}
        )
    return kind(**values)


def _plain(value: Any) -> Any:
    """Convert the value to plain data. Raises TypeError if that is impossible."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"{value!r} is not plain data")


def _guards(guard: DuplicateGuard | None, repeatable: Iterable[str]) -> tuple[DuplicateGuard, ...]:
    return () if guard is None else (replace(guard, exempt=guard.exempt | frozenset(repeatable)),)


def _check_counts(policy: Matrix | Minimal | Chat) -> None:
    for field in fields(policy):
        value = getattr(policy, field.name)
        if field.name in _AMOUNTS:
            is_amount = isinstance(value, _AMOUNTS[field.name]) and not isinstance(value, bool)
            wrong = value is not None and not (is_amount and value > 0)
        elif isinstance(field.default, bool):
            wrong = not isinstance(value, bool)
        elif isinstance(field.default, int):
            least = 2 if field.name == "batches" else 1  # a single batch is not a repeat
            wrong = not isinstance(value, int) or isinstance(value, bool) or value < least
        else:
            wrong = value is not None and not isinstance(value, DuplicateGuard)
        if wrong:
            raise SettingsError(
                f"{field.name}={value!r} is not valid for the policy {policy.name}", f"The default is {field.default!r}"
            )
