"""Run states of OpenAI's Agents SDK, from either Python or JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.run.rounds import AWAITS_APPROVAL
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats import openai_responses
from agentnb.interchange.formats.exchanges import recorded_of
from agentnb.interchange.formats.message_content import first_at, json_text, parts_of, value_at
from agentnb.interchange.formats.steps import ReplyPieces, Step, UserMessage, write_steps
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.chat_chunks import read_usage

NAME = "openai_agents"
TITLE = "run state of OpenAI's Agents SDK"
RECORDS_END = "the final output, calls that wait for approval"
WAITING = "This call waits for the person's approval."
_NAMES = {
    "generatedItems": "generated_items",
    "originalInput": "original_input",
    "modelResponses": "model_responses",
    "currentAgent": "current_agent",
    "currentStep": "current_step",
    "currentTurn": "current_turn",
    "maxTurns": "max_turns",
    "rawItem": "raw_item",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "inputTokensDetails": "input_tokens_details",
    "outputTokensDetails": "output_tokens_details",
    "finalOutput": "final_output",
}
"""Python's names for JavaScript's fields."""
_RECORDED = ("current_turn", "max_turns", "conversation_id", "previous_response_id", "trace", "tool_use_tracker")
_GUARDRAILS = (
    "input_guardrail_results",
    "output_guardrail_results",
    "tool_input_guardrail_results",
    "tool_output_guardrail_results",
)
_NO_STEP = frozenset({"tool_approval_item"})


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    first = file.first
    if isinstance(first, dict) and ({"generated_items", "generatedItems"} & first.keys()):
        return "" if {"original_input", "originalInput"} & first.keys() else "it has no original_input"
    return "it has no generated_items"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each state."""

    def read_one(position: str, record: dict[str, Any]) -> Run:
        return _run(file, position, _pythonic(record))

    yield from file.each(file.positioned_records(), read_one)


def _pythonic(value: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(key, key): item for key, item in value.items()}


def _run(file: TraceFile, position: str, state: dict[str, Any]) -> Run:
    items = [_pythonic(raw) for raw in _items(state)]
    agents = list(dict.fromkeys(filter(None, map(_agent, items))))
    last = _name(state.get("current_agent"))
    agent_field = {"agent": first} if (first := agents[0] if agents else last) else {}
    writer = file.writer(NAME, position, settings={"recorded": _recorded_fields(state)}, **agent_field)
    prompt = state["original_input"]
    write_steps(writer, [UserMessage(parts_of(prompt))] if isinstance(prompt, str) else openai_responses.steps_of(prompt))
    write_steps(writer, _steps(items, state.get("model_responses") or (), several=len({*agents, last} - {""}) > 1))
    waiting = _waiting(state)
    for item in waiting:
        call = openai_responses.call_of(item)
        writer.result(call.id, WAITING, name=call.name, error_code=AWAITS_APPROVAL)
    step = _pythonic(state.get("current_step") or {})
    if waiting:
        writer.warn(f"The run was suspended while {len(waiting)} calls waited for approval.")
        return writer.finish("stopped", "suspended")
    return writer.finish() if step.get("type") == "next_step_final_output" else writer.finish_without_end()


def _items(state: dict[str, Any]) -> list[Any]:
    """Return the items of the run or, if a handoff removed some from the next agent's view, of its session."""
    generated, session = state["generated_items"], state.get("session_items") or []
    return session if len(session) > len(generated) else generated


def _recorded_fields(state: dict[str, Any]) -> dict[str, Any]:
    fields = {key: state.get(key) for key in (*_RECORDED, *_GUARDRAILS)}
    fields["current_agent"] = _name(state.get("current_agent"))
    fields["context"] = value_at(state, "context", "context")
    fields["schema"] = state.get("$schemaVersion")
    return recorded_of(fields)


def _name(agent: Any) -> str:
    name = agent.get("name") if isinstance(agent, dict) else agent
    return name if isinstance(name, str) else ""


def _agent(item: dict[str, Any]) -> str:
    return _name(first_at(item, "agent", "source_agent", "sourceAgent"))


def _waiting(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls awaiting approval."""
    step = _pythonic(state.get("current_step") or {})
    data = step.get("data") if isinstance(step.get("data"), dict) else step
    interruptions = [_pythonic(item) for item in (data or {}).get("interruptions") or () if isinstance(item, dict)]
    return [item["raw_item"] for item in interruptions if isinstance(item.get("raw_item"), dict)]


# Items


def _steps(items: list[dict[str, Any]], responses: Any, *, several: bool) -> list[Step]:
    """Return the steps of the items. ``several``: whether to name the agents as authors."""
    usages = _usage_by_item(responses)
    steps: list[Step] = []
    pieces, used = ReplyPieces(), UNKNOWN
    for item in items:
        raw = item["raw_item"]
        author, usage = _agent(item) if several else "", usages.get(_key(raw), UNKNOWN)
        if not openai_responses.is_of_model(raw):
            steps += _flush(pieces, used)
            used = UNKNOWN
            steps.append(_result(item, raw))
            continue
        if item.get("type") in _NO_STEP:
            continue
        if author != pieces.author or (usage is not used and used is not UNKNOWN):
            steps += _flush(pieces, used)
            pieces = ReplyPieces(author)
        used = usage if usage is not UNKNOWN else used
        openai_responses.take_item(pieces, raw)
    return [*steps, *_flush(pieces, used)]


def _flush(pieces: ReplyPieces, usage: Usage) -> list[Step]:
    return pieces.steps(usage=usage) if pieces else []


def _result(item: dict[str, Any], raw: dict[str, Any]) -> Step:
    """Return the result in an item, or the tool's own output if the item has none."""
    result = openai_responses.result_of(raw)
    if not result.parts and item.get("output") is not None:
        return result._replace(parts=parts_of(json_text(item["output"])))
    return result


def _key(raw: dict[str, Any]) -> tuple[Any, ...]:
    return raw.get("type"), first_at(raw, "call_id", "callId", "id")


def _usage_by_item(responses: Any) -> dict[tuple[Any, ...], Usage]:
    """Return the usage of the response that each item came from."""
    usages: dict[tuple[Any, ...], Usage] = {}
    for response in responses:
        usage = _usage(response.get("usage"))
        for raw in response.get("output") or ():
            usages[_key(raw)] = usage
    return usages


def _usage(told: Any) -> Usage:
    """Return the usage of a response; unknown if it counts no request."""
    if not isinstance(told, dict):
        return UNKNOWN
    usage = _pythonic(told)
    if not usage.get("requests", 1) and not usage.get("total_tokens"):
        return UNKNOWN
    for key in ("input_tokens_details", "output_tokens_details"):
        if isinstance(usage.get(key), list):  # one per request
            usage[key] = usage[key][0] if len(usage[key]) == 1 else None
    return read_usage(usage)
