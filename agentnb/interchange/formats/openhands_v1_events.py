"""Events of OpenHands since version 1 as a run: actions of one model response make one reply.

A finish becomes the agent's last message rather than a call. A condensation is a compaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.endings import fail, finish_limited
from agentnb.interchange.formats.message_content import image_of, json_text, parts_of, result_parts, text_of, time_of
from agentnb.interchange.formats.openai_chat import tools_of
from agentnb.interchange.formats.session_log import Reply, SessionLog, count_of

PRODUCT = "OpenHands"
"""Author of user messages that the product generates."""
FINISH = "finish"
_KINDS = frozenset(
    {"SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "UserRejectObservation", "AgentErrorEvent"}
    | {"ConversationStateUpdateEvent", "ConversationErrorEvent", "Condensation", "CondensationRequest", "PauseEvent"}
    | {"CondensationSummaryEvent", "TokenEvent", "HookExecutionEvent", "LLMCompletionLogEvent", "InterruptEvent"}
)
_LIMITS = ("MaxIterationsReached", "maximum iteration")
_STATUS = "execution_status"
_ABOUT_ACTIONS = frozenset({"kind", "security_risk"})
"""Fields of an action that are not arguments from the model."""


def is_event(value: Any) -> bool:
    """True if this is an event."""
    if not isinstance(value, dict) or value.get("kind") not in _KINDS:
        return False
    return bool(value.keys() & {"source", "llm_message", "tool_call_id", "key", "system_prompt", "code"})


class ConversationReader:
    """Collects the events of a conversation, and writes its run."""

    def __init__(self, model: str = "") -> None:
        self.model = model
        self.tools: tuple[ToolSpec, ...] = ()
        self._log = SessionLog()
        self._system: list[str] = []
        self._replies: dict[str, Reply] = {}
        """Replies by the id of the model's response."""
        self._last_id = ""
        self._events: list[set[str]] = []
        """Ids of the events in each reply."""
        self._finishes: set[str] = set()
        """Ids of finish calls, which are left out of the run's calls."""
        self._state = ""
        self._error = ("", "")
        self._usage: dict[str, Usage] = {}
        self._at: Any = None

    def take(self, event: dict[str, Any]) -> None:
        """Add an event. Kinds outside the conversation are ignored."""
        take = _TAKES.get(event["kind"])
        self._at = time_of(event.get("timestamp")) or self._at
        if take is not None:
            take(self, event)

    def system_prompt(self, event: dict[str, Any]) -> None:
        """Add the system prompt with its tools."""
        prompts = [event.get("system_prompt"), event.get("dynamic_context")]
        self._system += [text for text in map(text_of, prompts) if text.strip()]
        definitions = [
            tool | {"name": tool.get("name") or tool.get("title")}
            for tool in event.get("tools") or ()
            if isinstance(tool, dict)
        ]
        self.tools = self.tools or tools_of(definitions)

    def message(self, event: dict[str, Any]) -> None:
        """Add a message of the person, the agent or the product."""
        message, source = event["llm_message"], event.get("source")
        parts = _contents(message.get("content"))
        if source == "agent" or (source is None and message.get("role") == "assistant"):
            reply = self._reply_of(event, message)
            reply.parts += parts
            reply.stop_reason = "stop"
            return
        author = str(event.get("sender") or "") if source == "user" else PRODUCT
        self._say(parts, author)
        self._say(_contents(event.get("extended_content")), PRODUCT)

    def action(self, event: dict[str, Any]) -> None:
        """Add an action to its reply."""
        reply = self._reply_of(event, event)
        reply.parts += _contents(event.get("thought"))
        call, call_id = _call(event), str(event.get("tool_call_id") or "")
        if call.name != FINISH:
            reply.calls.append(call)
            return
        action = event.get("action")
        fields = action if isinstance(action, dict) else call.arguments if isinstance(call.arguments, dict) else {}
        between = "\n\n" if reply.parts and isinstance(reply.parts[-1], Text) else ""
        reply.parts += parts_of(between + text_of(fields.get("message")))
        reply.stop_reason = "stop"
        self._finishes.add(call_id)

    def observation(self, event: dict[str, Any]) -> None:
        """Add the result of an action."""
        call_id, seen = str(event.get("tool_call_id") or ""), event["observation"]
        if call_id in self._finishes:
            return
        code = _error_code(seen)
        parts = [*_observation_parts(seen), *_contents(event.get("extended_content"))]
        self._result(event, parts, code)

    def add_rejection(self, event: dict[str, Any]) -> None:
        """Add the rejection of an action by the person or a hook."""
        self._result(event, parts_of(str(event.get("rejection_reason") or "")), "rejected")

    def tool_error(self, event: dict[str, Any]) -> None:
        """Add the error of an action that could not run."""
        self._result(event, parts_of(str(event.get("error") or "")), "tool_error")

    def conversation_error(self, event: dict[str, Any]) -> None:
        """Record a final error, unless other events follow."""
        self._error = str(event.get("code") or "error"), str(event.get("detail") or "")

    def add_summary(self, event: dict[str, Any]) -> None:
        """Add a summary that replaces earlier events, except the first user message and the last replies."""
        forgotten = {str(event_id) for event_id in event.get("forgotten_event_ids") or ()}
        kept = next((number for number, ids in enumerate(reversed(self._events)) if ids & forgotten), len(self._events))
        summary = str(event.get("summary") or "")
        if summary.strip():
            self._log.compact(summary, first=1, rounds=kept, at=self._at)
        else:
            self._log.warn(f"OpenHands condensed the history: {len(forgotten):,} events were left out", self._at)
        self._last_id = ""

    def state(self, event: dict[str, Any]) -> None:
        """Record the conversation's state, and the usage of its responses if the update includes it."""
        key, value = event.get("key"), event.get("value")
        state = value if key == "full_state" and isinstance(value, dict) else {key: value}
        status = state.get(_STATUS, state.get("agent_status"))
        self._state = status if isinstance(status, str) else self._state
        self._note_usage(state.get("stats"))

    def note_interruption(self, event: dict[str, Any]) -> None:
        """Record that the person stopped the agent."""
        self._state = "interrupted"

    # Items of the log

    def _say(self, parts: list[AnyPart], author: str) -> None:
        if parts:
            self._last_id = ""
            self._error = ("", "")
            self._log.say(parts, author=author, at=self._at)

    def _reply_of(self, event: dict[str, Any], source: dict[str, Any]) -> Reply:
        """Return the reply of this event; events of one response share a reply."""
        response = str(event.get("llm_response_id") or "")
        event_id = str(event.get("id") or "")
        if response and response == self._last_id:
            self._events[-1].add(event_id)
            return self._replies[response]
        self._events.append({event_id})
        self._error = ("", "")
        reply = self._log.reply(Reply(_thoughts(source), at=self._at, metadata={"id": response} if response else {}))
        self._last_id = response
        if response:
            self._replies[response] = reply
        return reply

    def _result(self, event: dict[str, Any], parts: list[AnyPart], code: str) -> None:
        name, call_id = str(event.get("tool_name") or ""), str(event.get("tool_call_id") or "")
        self._log.result(call_id, parts, name=name, error_code=code, at=self._at)

    def _note_usage(self, stats: Any) -> None:
        """Record the usage of each response from the metrics of an agent or record."""
        by_use = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
        for metrics in by_use.values() if isinstance(by_use, dict) else [stats]:
            for usage in metrics.get("token_usages") or () if isinstance(metrics, dict) else ():
                if isinstance(usage, dict) and isinstance(usage.get("response_id"), str):
                    self._usage[usage["response_id"]] = _usage(usage)
                    self.model = self.model or str(usage.get("model") or "")

    # The run

    def write(self, writer: RunWriter, about: dict[str, Any]) -> Run:
        """Return the run. ``about``: the record or state file, which may have usage and the end."""
        self._note_usage(about.get("metrics"))
        self._note_usage(about.get("stats"))
        for response, reply in self._replies.items():
            reply.usage = self._usage.get(response, UNKNOWN)
        for text in self._system:
            writer.system(text)
        state = about.get(_STATUS)
        status = state if isinstance(state, str) else self._state
        code, detail = self._error if not about.get("error") else ("error", str(about["error"]))
        return self._log.write(writer, self.model, end=lambda: self._end(writer, status, code, detail))

    def _end(self, writer: RunWriter, status: str, code: str, detail: str) -> Run | None:
        """End the run as recorded in the conversation; None without a recorded end."""
        if code and any(sign.lower() in f"{code} {detail}".lower() for sign in _LIMITS):
            return finish_limited(writer, "max_rounds", at=self._at)
        if code or status == "error":
            return fail(writer, code or "error", detail, at=self._at)
        if status == "stuck":
            return writer.finish("stopped", "loop_detected", at=self._at)
        if status == "interrupted":
            return writer.finish("cancelled", "cancelled", at=self._at)
        return None


_TAKES: dict[str, Callable[[ConversationReader, dict[str, Any]], None]] = {
    "SystemPromptEvent": ConversationReader.system_prompt,
    "MessageEvent": ConversationReader.message,
    "ActionEvent": ConversationReader.action,
    "ObservationEvent": ConversationReader.observation,
    "UserRejectObservation": ConversationReader.add_rejection,
    "AgentErrorEvent": ConversationReader.tool_error,
    "ConversationErrorEvent": ConversationReader.conversation_error,
    "Condensation": ConversationReader.add_summary,
    "ConversationStateUpdateEvent": ConversationReader.state,
    "InterruptEvent": ConversationReader.note_interruption,
}


def _contents(content: Any) -> list[AnyPart]:
    """Return the parts of a content, whose images are lists of URLs."""
    parts: list[AnyPart] = []
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, dict) and isinstance(item.get("image_urls"), list):
            parts += [image_of(url) or Text(f"[picture: {str(url)[:200]}]") for url in item["image_urls"]]
        else:
            parts += parts_of(item)
    return parts


def _thoughts(source: dict[str, Any]) -> list[AnyPart]:
    """Return the thinking before a reply, from any provider's field for it."""
    blocks = [entry.get("thinking") for entry in source.get("thinking_blocks") or () if isinstance(entry, dict)]
    item = source.get("responses_reasoning_item")
    summary = item.get("summary") if isinstance(item, dict) else None
    candidates = [source.get("reasoning_content"), "\n".join(filter(None, blocks)), "\n".join(summary or ())]
    text = next((entry for entry in candidates if isinstance(entry, str) and entry.strip()), "")
    return [Thinking(text)] if text else []


def _call(event: dict[str, Any]) -> ToolCall:
    """Return the model's call of an action, or rebuild it from the tool's input."""
    recorded = event.get("tool_call")
    recorded = recorded if isinstance(recorded, dict) else {}
    recorded = recorded["function"] if isinstance(recorded.get("function"), dict) else recorded
    action = event.get("action")
    fields = {key: value for key, value in action.items() if key not in _ABOUT_ACTIONS} if isinstance(action, dict) else {}
    name = str(recorded.get("name") or event.get("tool_name") or "")
    return ToolCall(name, recorded.get("arguments", fields), str(event.get("tool_call_id") or ""))


def _observation_parts(seen: Any) -> list[AnyPart]:
    """Return the content of an observation, otherwise its output or other fields."""
    if not isinstance(seen, dict):
        return result_parts(seen)
    content = seen.get("content", seen.get("output"))
    if content is not None:
        return _contents(content)
    remaining = {key: value for key, value in seen.items() if key not in ("kind", "is_error") and value is not None}
    return parts_of(str(remaining.get("error") or "")) or ([Text(json_text(remaining))] if remaining else [])


def _error_code(seen: Any) -> str:
    """Return the error code of an observation; empty if it succeeded."""
    if not isinstance(seen, dict):
        return ""
    metadata = seen.get("metadata")
    exit_code = seen.get("exit_code", metadata.get("exit_code") if isinstance(metadata, dict) else None)
    if isinstance(exit_code, int) and exit_code not in (0, -1):  # -1: the command goes on
        return f"exit_{exit_code}"
    return "tool_error" if seen.get("is_error") is True or seen.get("error") else ""


def _usage(one: dict[str, Any]) -> Usage:
    return replace(
        UNKNOWN,
        input=count_of(one.get("prompt_tokens")),
        output=count_of(one.get("completion_tokens")),
        cache_read=count_of(one.get("cache_read_tokens")),
        cache_write=count_of(one.get("cache_write_tokens")),
        reasoning=count_of(one.get("reasoning_tokens")),
    )
