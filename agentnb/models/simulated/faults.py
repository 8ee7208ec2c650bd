"""Faults of the simulated model: each replaces the right move with a wrong one where it applies."""

from __future__ import annotations

from collections.abc import Callable

from agentnb.core.messages import ToolCall
from agentnb.core.request import ToolSpec
from agentnb.models.simulated.observation import Observation
from agentnb.models.simulated.plan_parser import short_title
from agentnb.models.simulated.planner import READ, Move, last_words, step_move, todo_call

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
"""Replies that announce work instead of doing it: enough of them that none repeats within five replies."""
PLANS = (
    "Before I go on I want to think {what} through once more from the start.",
    "Let me look over the whole plan again; {what} deserves some thought.",
    "I wonder whether {what} is described well enough, so I plan it anew.",
    "The order of things might still be better: where does {what} belong?",
    "A good plan saves work later. Once again, then: how to go about {what}?",
    "I weigh what could go wrong with {what} before anything is touched.",
)
"""Replies that plan again, with a planning call if there is a tool for one."""
THINK = "think"


def _forget(observation: Observation, right: Move) -> Move | None:
    """Continue or answer without marking finished steps completed."""
    if right.kind == "step" and observation.next_step is not None:
        wrong = step_move(observation, observation.next_step, "none")
        return wrong if wrong != right else None
    return _answer(observation) if right.kind in ("close", "review") else None


def _chat(observation: Observation, right: Move) -> Move | None:
    """Announce the next step instead of doing it."""
    if right.kind not in ("step", "close", "review"):
        return None
    return Move("talk", TALK[observation.turn % len(TALK)].format(what=_what(observation)))


def _loop(observation: Observation, right: Move) -> Move | None:
    """Repeat the calls of the last step."""
    if right.kind not in ("step", "close", "answer") or not observation.made:
        return None
    index = observation.made[-1]
    step = observation.steps[index]
    return Move("again", f"Step {index + 1} of {len(observation.steps)} once more: {step.title}.", step.calls)


def _plan(observation: Observation, right: Move) -> Move | None:
    """Plan again, with the planning tools of the run, if any."""
    if right.kind not in ("step", "close", "review"):
        return None
    calls = _planning_calls(observation)
    text = PLANS[observation.turn % len(PLANS)].format(what=_what(observation))
    return Move("planning", text, (calls[observation.turn % len(calls)],) if calls else ())


def _stop(observation: Observation, right: Move) -> Move | None:
    """Answer although work remains."""
    started = right.kind == "step" and bool(observation.made)
    return _answer(observation) if started or right.kind == "review" else None


COMMIT: dict[str, Callable[[Observation, Move], Move | None]] = {
    "forget": _forget,
    "chat": _chat,
    "loop": _loop,
    "plan": _plan,
    "stop": _stop,
}
"""Functions by fault name. Each returns the wrong move for the right move, or None if the fault does not apply."""


def _answer(observation: Observation) -> Move:
    return Move("answer", last_words(observation))


def _what(observation: Observation) -> str:
    """Return a description of the next step."""
    index = observation.next_step
    if index is None:
        return "the end of the list"
    return f"step {index + 1} of {len(observation.steps)} ({short_title(observation.steps[index].title)})"


def _planning_calls(observation: Observation) -> list[ToolCall]:
    calls = []
    if observation.has_todos:
        calls.append(READ)
    index = observation.next_step if observation.next_step is not None else (observation.made[-1] if observation.made else None)
    if index is not None and index in observation.own:
        entry = {"id": observation.own[index].id, "description": f"To be thought through, version {observation.turn}"}
        calls.append(todo_call("update", todoUpdates=[entry]))
    calls += [ToolCall(THINK, _a_thought(tool, observation)) for tool in observation.tools if tool.name == THINK]
    return calls


def _a_thought(tool: ToolSpec, observation: Observation) -> dict[str, str]:
    names = [*tool.input_schema.get("required", ()), *tool.input_schema.get("properties", {})]
    return {name: f"How should I begin with {_what(observation)}? Thought {observation.turn}." for name in names[:1]}
