"""OpenHands events as runs: actions, their observations, and delegated agents.

Newer versions have an event's fields in ``args`` or ``extras``, early ones at the top level. Actions from the same model
response form one reply. A finish becomes the agent's last message rather than a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.endings import fail, finish_limited
from agentnb.interchange.formats.message_content import cost_of, first_at, image_of, parts_of, str_at, time_at, value_at
from agentnb.interchange.formats.run_ids import nested_id, stable_id
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

_LAST_WORDS = frozenset({"finish", "reject"})
_NO_CALLS = frozenset({"change_agent_state", "recall", "null", "condensation", "condensation_request", "loop_recovery"})
_ABOUT_EVENTS = frozenset(
    {"action", "thought", "id", "timestamp", "source", "message", "cause", "timeout", "tool_call_metadata", "llm_metrics"}
    | {"action_risk", "security_risk", "is_confirmed", "confirmation_state", "keep_prompt", "kernel_init_code", "hidden"}
    | {"blocking", "wait_for_response", "is_input", "final_thought"}
)
"""Fields of an action that are not arguments set by the model."""
_FINISHED = {"finished": ("completed", "natural"), "rejected": ("stopped", "rejected"), "stopped": ("cancelled", "stopped")}
"""Status and stop reason of a run, by the last state of its agent."""
DELEGATE = "delegate"


def read_events(
    file: TraceFile,
    events: list[dict[str, Any]],
    about: dict[str, Any],
    *,
    prompt: Any = None,
    model: str = "",
    agent: str = "agent",
    metrics: Mapping[str, Any] | None = None,
    error: Any = None,
    assessed: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Run]:
    """Yield the run in these events, followed by those of delegated agents.

    ``about``: arguments of `TraceFile.writer`; ``prompt``: the prompt, if the events lack it; ``metrics``: a mapping with the
    ``costs`` of the replies; ``error``: the run's error; ``assessed``: fields that record success.
    """
    has_nested = any(value_at(event, "action") == DELEGATE for event in events)
    run_id = about.get("run_id") or (stable_id(file, about["position"], about["task"], len(events)) if has_nested else "")
    writer = file.writer(**about | {"run_id": run_id, "model": model or _model(events), "agent": agent})
    own, delegated = _own_and_delegated(events)
    reader = _Reader(writer, own, metrics or {})
    for name, value in assessed.items():
        writer.assess(name, value)
    writer.total(total_of(cost=(metrics or {}).get("accumulated_cost")), has_nested_cost=bool(delegated))
    if prompt and not any(_is_prompt(event) for event in own):
        writer.say(str(prompt))
    file.take_each(own, reader.take, about["position"], "event")
    yield reader.finish(error)
    for number, (action, inner) in enumerate(delegated, 1):
        action_fields = _fields(action)
        inner_id = nested_id(run_id, f"event-{action['id']}" if "id" in action else "", number)
        inputs = action_fields.get("inputs") or {}
        task = inputs.get("task", inputs) if isinstance(inputs, dict) else inputs
        nested_about = about | {"run_id": inner_id, "parent_id": run_id, "settings": {}}
        yield from read_events(
            file, inner, nested_about, prompt=task or "", model=model, agent=str(action_fields.get("agent") or "agent")
        )


def _own_and_delegated(events: list[Any]) -> tuple[list[Any], list[tuple[dict[str, Any], list[Any]]]]:
    """Return the agent's own events and, for each delegation, the action with the other agent's events."""
    own: list[Any] = []
    delegated: list[tuple[dict[str, Any], list[Any]]] = []
    depth = 0
    for event in events:
        depth -= value_at(event, "observation") == DELEGATE and depth > 0
        if depth:
            delegated[-1][1].append(event)
        else:
            own.append(event)
        if value_at(event, "action") == DELEGATE:
            if not depth:
                delegated.append((event, []))
            depth += 1
    return own, [(action, inner) for action, inner in delegated if inner]


class _Reader:
    """Adds one agent's events to a writer."""

    def __init__(self, writer: RunWriter, events: list[Any], metrics: Mapping[str, Any]) -> None:
        self._writer = writer
        valid_events = [event for event in events if isinstance(event, dict)]
        self._calls = {event["id"]: _call_id(event) for event in valid_events if "id" in event and "action" in event}
        self._of_response = _by_response(valid_events)
        replies = sum(_is_reply(event) and self._is_first(event) for event in valid_events)
        costs = [entry.get("cost") if isinstance(entry, dict) else entry for entry in metrics.get("costs") or ()]
        self._costs = iter(costs if len(costs) == replies else ())
        self._ended: tuple[str, str] | None = None
        self._error = ""
        self._replied: list[Any] = []
        """The id of the first event of each reply."""
        self._at: Any = None

    def take(self, event: dict[str, Any]) -> None:
        """Add an event."""
        self._at = time_at(event) or self._at
        action = event.get("action")
        if action is None:
            self._observation(event, str(event["observation"]))
        elif action == "system":
            self._writer.system(str(_fields(event).get("content") or ""))
        elif action == "message" and not _is_reply(event):
            self._writer.say(_words(event), at=self._at)
        elif action == "condensation":
            self._add_summary(_fields(event))
        elif action not in _NO_CALLS:
            self._reply(event)

    def _add_summary(self, about: dict[str, Any]) -> None:
        """Add a summary that replaces earlier events, except for the prompt and the most recent replies."""
        start, end = about.get("forgotten_events_start_id"), about.get("forgotten_events_end_id")
        between = range(start, end + 1) if isinstance(start, int) and isinstance(end, int) else ()
        forgotten = {*(about.get("forgotten_event_ids") or between)}
        summary = str_at(about, "summary")
        if summary.strip():
            kept = next(
                (number for number, reply_id in enumerate(reversed(self._replied)) if reply_id in forgotten), len(self._replied)
            )
            self._writer.compact(summary, first=1, rounds=kept, at=self._at)
        else:
            self._writer.warn(f"OpenHands condensed the history: {len(forgotten):,} events were left out")

    def _is_first(self, event: dict[str, Any]) -> bool:
        of_response = self._of_response.get(_response_id(event))
        return of_response is None or of_response[0] is event

    def _reply(self, event: dict[str, Any]) -> None:
        """Add a reply with all calls from its response, when the first of its actions is read."""
        if not self._is_first(event):
            return
        self._replied.append(event.get("id"))
        answer = _response(event)
        calls = [
            _call(action)
            for action in self._of_response.get(_response_id(event), [event])
            if action["action"] not in {*_LAST_WORDS, "message"}
        ]
        usage = replace(_usage(answer), cost=cost_of(next(self._costs, None)))
        if event["action"] in _LAST_WORDS:
            self._ended = ("completed", "natural") if event["action"] == "finish" else ("stopped", "rejected")
        self._writer.reply(
            [*_thoughts(answer), *_words(event)],
            calls,
            at=self._at,
            usage=usage,
            stop_reason=str(openai_chat.first_choice(answer).get("finish_reason") or ""),
        )

    def _observation(self, event: dict[str, Any], kind: str) -> None:
        if kind == "agent_state_changed":
            state = str(_fields(event).get("agent_state") or "")
            self._ended = _FINISHED.get(state, self._ended)
            self._error = str(_fields(event).get("reason") or state) if state == "error" else self._error
            return
        if kind == "null":
            return
        parts = [*parts_of(event.get("content")), *_pictures(event)]
        cause = event.get("cause")
        if kind == "recall":
            if any(isinstance(part, Text) and part.text.strip() for part in parts):
                self._writer.say(parts, author="recall", at=self._at)
            return
        call_id = self._calls.get(cause) if isinstance(cause, int | str) else None
        if kind == "error" and not call_id and not self._calls:
            self._writer.say(parts, author="OpenHands", at=self._at)
            return
        code = _code(event, kind)
        self._writer.result(
            call_id or _metadata(event).get("tool_call_id") or "",
            parts,
            error_code=code,
            at=self._at,
        )

    def finish(self, error: Any) -> Run:
        """Return the run. ``error``: the error in the record."""
        message = str(error or self._error or "")
        if self._ended is not None and not error:
            return self._writer.finish(*self._ended, at=self._at)  # type: ignore[arg-type]  # a status
        if not message:
            return self._writer.finish_without_end()
        lower = message.lower()
        if "maximum iteration" in lower:
            return finish_limited(self._writer, "max_rounds", at=self._at)
        if "maximum budget" in lower or "budget exceeded" in lower:
            return finish_limited(self._writer, "budget", at=self._at)
        if "stuck in a loop" in lower or "agentstuckinloop" in lower:
            return self._writer.finish("stopped", "loop_detected", at=self._at)
        return fail(self._writer, message.partition(":")[0][:80], message, at=self._at)


def _fields(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the event, in the form of any version."""
    inner = event.get("args" if "action" in event else "extras")
    return inner if isinstance(inner, dict) else event


def _is_reply(event: dict[str, Any]) -> bool:
    """True for an agent's action. In early versions (without a source), messages that wait for an answer are the agent's."""
    action = event.get("action")
    if action is None or action in _NO_CALLS or action == "system":
        return False
    return action != "message" or str(event.get("source", "agent" if event.get("wait_for_response") else "user")) == "agent"


def _is_prompt(event: Any) -> bool:
    return value_at(event, "action") == "message" and not _is_reply(event)


def _metadata(event: dict[str, Any]) -> Mapping[str, Any]:
    return object_of(event.get("tool_call_metadata"))


def _response(event: dict[str, Any]) -> Mapping[str, Any]:
    return object_of(_metadata(event).get("model_response"))


def _response_id(event: dict[str, Any]) -> str:
    return str(_response(event).get("id") or "") if "action" in event else ""


def _by_response(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if _is_reply(event) and _response_id(event):
            groups.setdefault(_response_id(event), []).append(event)
    return groups


def _call_id(event: dict[str, Any]) -> str:
    return str(_metadata(event).get("tool_call_id") or f"event-{event['id']}")


def _call(event: dict[str, Any]) -> ToolCall:
    metadata, recorded_id = _metadata(event), _call_id(event) if "id" in event else ""
    for choice in _response(event).get("choices") or ():
        for tool_call in (choice.get("message") or {}).get("tool_calls") or ():
            if tool_call.get("id") == recorded_id:
                return ToolCall(tool_call["function"]["name"], tool_call["function"].get("arguments"), recorded_id)
    arguments = {name: value for name, value in _fields(event).items() if name not in _ABOUT_EVENTS and value is not None}
    return ToolCall(str(metadata.get("function_name") or event["action"]), arguments, recorded_id)


def _words(event: dict[str, Any]) -> list[AnyPart]:
    """Return the parts of a message or action: its text, thought and images."""
    fields = _fields(event)
    parts: list[AnyPart] = []
    thought = fields.get("thought")
    if isinstance(thought, dict):
        parts += [Thinking(str(thought["reasoning_content"]))] if thought.get("reasoning_content") else []
        thought = thought.get("text")
    last = fields.get("final_thought") if event["action"] in _LAST_WORDS else None
    for text in dict.fromkeys((fields.get("content") if event["action"] == "message" else None, thought, last)):
        parts += parts_of(text)
    return [*parts, *_pictures(event)]


def _pictures(event: dict[str, Any]) -> list[AnyPart]:
    fields = _fields(event)
    urls = [fields.get("screenshot"), *(first_at(fields, "image_urls", "images_urls") or ())]
    return [picture for url in dict.fromkeys(filter(None, urls)) if (picture := image_of(url)) is not None]


def _thoughts(answer: Mapping[str, Any]) -> list[AnyPart]:
    return thinking((openai_chat.first_choice(answer).get("message") or {}).get("reasoning_content"))


def _usage(answer: Mapping[str, Any]) -> Usage:
    usage = answer.get("usage")
    reported = openai_chat.usage_of(usage)
    return replace(reported, cache_write=usage.get("cache_creation_input_tokens")) if isinstance(usage, dict) else reported


def _model(events: list[Any]) -> str:
    return next(
        (str(_response(event)["model"]) for event in events if isinstance(event, dict) and _response(event).get("model")), ""
    )


def _code(event: dict[str, Any], kind: str) -> str:
    """Return the error code of an observation; empty if it succeeded."""
    if kind == "error":
        return "tool_error"
    if kind == "user_rejected":
        return "rejected"
    fields = _fields(event)
    exit_code = value_at(fields, "metadata", "exit_code")
    exit_code = fields.get("exit_code") if exit_code is None else exit_code
    if isinstance(exit_code, int) and exit_code not in (0, -1):  # -1: the command goes on
        return f"exit_{exit_code}"
    return "tool_error" if fields.get("error") is True else ""
