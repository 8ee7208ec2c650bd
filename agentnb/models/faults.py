"""What the simulated model does wrong: each fault, where it can show, puts another move in the place of the right one."""

from __future__ import annotations

from collections.abc import Callable

from agentnb.core.messages import ToolCall
from agentnb.core.tool_spec import ToolSpec
from agentnb.models.moves import READ, Move, last_words, step_move, todo_call
from agentnb.models.plan_text import short_title
from agentnb.models.sight import Sight

TALK = (
    "Next comes {what}; I am going to get to it in a moment.",
    "Let me first explain how I would approach {what}, so that it is clear.",
    "My plan is to take up {what} now, and then to go on from there.",
    "It makes sense to deal with {what} before anything else happens.",
    "What remains is above all {what}, which should not take very long.",
    "I have been thinking about {what}: a straightforward matter, all in all.",
    "So now I will do {what}, exactly as you have asked me to.",
    "Before the rest, there is {what} to be looked after, and I shall do that.",
    "Good, everything is prepared, and {what} can begin as soon as we like.",
    "You will have {what} from me shortly; here is what I intend.",
    "The obvious way forward is {what}, and that is the way I mean to go.",
    "Allow me to announce {what}: that is what I am turning to at this point.",
)
"""What it says instead of doing it. So many that none comes back among the last five answers."""
PLANS = (
    "Before I go on I want to think {what} through once more from the start.",
    "Let me look over the whole plan again; {what} deserves some thought.",
    "I wonder whether {what} is described well enough, so I plan it anew.",
    "The order of things might still be better: where does {what} belong?",
    "A good plan saves work later. Once again, then: how to go about {what}?",
    "I weigh what could go wrong with {what} before anything is touched.",
)
"""What it says where it has no tool to plan with."""
THINK = "think"


def _forget(sight: Sight, right: Move) -> Move | None:
    """Goes on, or answers, as if what it finished needed no mark."""
    if right.kind == "step" and sight.next_step is not None:
        wrong = step_move(sight, sight.next_step, "none")
        return wrong if wrong != right else None
    return _answer(sight) if right.kind in ("close", "review") else None


def _chat(sight: Sight, right: Move) -> Move | None:
    """Says what it will do."""
    if right.kind not in ("step", "close", "review"):
        return None
    return Move("talk", TALK[sight.turn % len(TALK)].format(what=_what(sight)))


def _loop(sight: Sight, right: Move) -> Move | None:
    """Makes the calls of its last step again."""
    if right.kind not in ("step", "close", "answer") or not sight.made:
        return None
    place = sight.made[-1]
    step = sight.steps[place]
    return Move("again", f"Step {place + 1} of {len(sight.steps)} once more: {step.title}.", step.calls)


def _plan(sight: Sight, right: Move) -> Move | None:
    """Plans again, with whatever it was given to plan with."""
    if right.kind not in ("step", "close", "review"):
        return None
    calls = _planning_calls(sight)
    text = PLANS[sight.turn % len(PLANS)].format(what=_what(sight))
    return Move("planning", text, (calls[sight.turn % len(calls)],) if calls else ())


def _stop(sight: Sight, right: Move) -> Move | None:
    """Answers although something is left to do."""
    started = right.kind == "step" and bool(sight.made)
    return _answer(sight) if started or right.kind == "review" else None


COMMIT: dict[str, Callable[[Sight, Move], Move | None]] = {
    "forget": _forget,
    "chat": _chat,
    "loop": _loop,
    "plan": _plan,
    "stop": _stop,
}
"""By the name of the fault: what it makes of the right move, or None where it cannot show."""


def _answer(sight: Sight) -> Move:
    return Move("answer", last_words(sight))


def _what(sight: Sight) -> str:
    """What it should be doing."""
    place = sight.next_step
    if place is None:
        return "the end of the list"
    return f"step {place + 1} of {len(sight.steps)} ({short_title(sight.steps[place].title)})"


def _planning_calls(sight: Sight) -> list[ToolCall]:
    calls = []
    if sight.has_todos:
        calls.append(READ)
    place = sight.next_step if sight.next_step is not None else (sight.made[-1] if sight.made else None)
    if place is not None and place in sight.own:
        entry = {"id": sight.own[place].id, "description": f"To be thought through, version {sight.turn}"}
        calls.append(todo_call("update", todoUpdates=[entry]))
    calls += [ToolCall(THINK, _a_thought(tool, sight)) for tool in sight.tools if tool.name == THINK]
    return calls


def _a_thought(tool: ToolSpec, sight: Sight) -> dict[str, str]:
    names = [*tool.input_schema.get("required", ()), *tool.input_schema.get("properties", {})]
    return {name: f"How should I begin with {_what(sight)}? Thought {sight.turn}." for name in names[:1]}
