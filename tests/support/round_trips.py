"""Contents of the forms that runs are saved in, and the check that a run comes back whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb import Run
from agentnb.core.log import events as e
from agentnb.core.messages import Image, Message, Thinking
from agentnb.core.run.rounds import LOST
from agentnb.interchange.conversion.gaps import FILLED

ASPECTS: dict[str, Callable[[Run], Any]] = {
    "prompt": lambda run: run.prompt,
    "pictures said": lambda run: [_pictures(one) for one in run.messages if one.role == "user" and _pictures(one)],
    "said": lambda run: [(one.text, one.author) for one in _all_messages(run) if one.role == "user" and one.text],
    "replies": lambda run: [(one.text, one.author) for one in _all_messages(run) if one.role == "assistant"],
    "thinking": lambda run: [[part.text for part in one.reply.parts if isinstance(part, Thinking)] for one in _replied(run)],
    "calls": lambda run: [[(call.name, call.arguments, call.id) for call in one.calls] for one in _replied(run)],
    "result texts": lambda run: [[_told(one)[0] for one in each.records] for each in _replied(run)],
    "results": lambda run: [[_told(one) for one in each.records] for each in _replied(run)],
    "error codes": lambda run: [[_told(one)[1:2] and one.result.error_code for one in each.records] for each in _replied(run)],
    "what providers want back": lambda run: [
        [part.provider_metadata for part in one.reply.parts if isinstance(part, Thinking)] for one in _replied(run)
    ],
    "model": lambda run: run.model.removeprefix("scripted:").removeprefix("anthropic:").removeprefix("openai:"),
    "full model": lambda run: run.model,
    "system": lambda run: run.system,
    "tools": lambda run: [(one.name, one.description) for one in run.tools if one.description],
    "usage": lambda run: [one.usage for one in _replied(run)],
    "stop reasons": lambda run: [one.stop_reason for one in _replied(run)],
    "metadata": lambda run: [one.metadata for one in _replied(run)],
    "times": lambda run: [run.started_at, run.ended_at, *sorted(map(str, _ends(run)))],
    "seconds": lambda run: [
        [one.model_seconds, *[record.seconds for record in one.records if len(_told(record)) > 1]] for one in _replied(run)
    ],
    "id": lambda run: (run.id, run.parent_id, run.agent, run.tags),
    "end": lambda run: (run.status, run.stop_reason, run.error, run.limit and run.limit.limit),
    "todos": lambda run: run.todos,
    "guidance": lambda run: [one.guidance for one in _replied(run)],
    "followed": lambda run: [[each.followed for each in one.followed] for one in _replied(run)],
    "loops": lambda run: [(one.rule, one.first, one.last, one.sentence, one.severity) for one in run.loops],
    "findings": lambda run: [(one.rule, one.family, one.first, one.last, one.evidence) for one in run.findings],
    "warnings": lambda run: [one for one in run.warnings if not one.startswith(FILLED)],
    "other model calls": lambda run: [(one.operation, one.model, one.usage) for one in run.model_calls],
    "plans": lambda run: {name: one.plan for name, one in run.plans.items()},
    "history": lambda run: (run.inherited, run.continued_from),
}
CONVERSATION = {"said", "replies", "calls", "result texts", "model", "system", "tools", "thinking", "pictures said"}
SPANS = set(ASPECTS)
HOLDS: dict[str, set[str]] = {
    "openai_chat": CONVERSATION - {"pictures said"},
    "anthropic_messages": (CONVERSATION | {"what providers want back"}),
    "otel": SPANS,
    "openinference": SPANS,
    "parquet": SPANS,
}
"""Contents of each form. SAM's has tests of its own."""


def _all_messages(run: Run) -> list[Message]:
    return [*run.messages, *run.pending]


def _ends(run: Run) -> list[Any]:
    """When replies and results came."""
    came = [one for one in run.events if isinstance(one, e.ModelReplied | e.ToolFinished | e.CallBlocked)]
    return [one.at for one in came if isinstance(one, e.ModelReplied) or one.result.error_code != LOST]


def _replied(run: Run) -> list[Any]:
    return [one for one in run.rounds if one.reply is not None]


def _pictures(message: Message) -> list[Image]:
    return [part for part in message.parts if isinstance(part, Image)]


def _told(record: Any) -> Any:
    """Return the result of a call; None if it is missing or was filled in."""
    result = record.result
    if result is None or result.error_code == LOST:
        return (None,)
    pictures = [part for part in result.parts if isinstance(part, Image)]
    return (result.text, result.is_error, pictures)


def check(run: Run, back: Run, aspects: set[str]) -> None:
    """These aspects of both runs are the same."""
    for name in sorted(aspects):
        was, came = ASPECTS[name](run), ASPECTS[name](back)
        assert came == was, f"{name}:\n{came}\nwas\n{was}"
