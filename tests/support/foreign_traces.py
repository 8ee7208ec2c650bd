"""Two traces as other products write them, made up here, and the few lines that read them with a `RunWriter`."""

from __future__ import annotations

from typing import Any

from agentnb.core.log.events import Origin
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter


def _asks(name: str, arguments: str, call_id: str = "call_a") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def _told(content: str, name: str, call_id: str = "call_a") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


CHAT: list[dict[str, Any]] = [
    {
        "task_id": 4,
        "traj": [
            {"role": "system", "content": "# Policy"},
            {"role": "user", "content": "Cancel my order."},
            _asks("find", '{"order": "W1"}'),
            _told("pending", "find"),
            {"role": "assistant", "content": "Shall I?", "function_call": None},
            {"role": "user", "content": "Yes."},
            _asks("cancel", '{"order": "W1"}'),
            _told("cancelled", "cancel"),
            {"role": "assistant", "content": "It is cancelled."},
        ],
    },
    {"task_id": 5, "traj": [{"role": "user", "content": "Find it."}, _asks("find", "{}")]},
]
"""Records of OpenAI chat messages: contents are null beside calls, arguments are texts, ids are used again."""


def chat_run(record: dict[str, Any], position: str) -> Run:
    """Return the run of one record of OpenAI chat messages."""
    writer = RunWriter(Origin("openai_chat", "chat.json", position))
    for message in record["traj"]:
        if message["role"] == "assistant":
            asked = [(one["function"], one["id"]) for one in message.get("tool_calls") or ()]
            writer.reply(message["content"], [ToolCall(made["name"], made["arguments"], call_id) for made, call_id in asked])
        elif message["role"] == "tool":
            writer.result(message["tool_call_id"], message["content"], name=message["name"])
        else:
            {"system": writer.system, "user": writer.say}[message["role"]](message["content"])
    last = record["traj"][-1]
    is_answered = last["role"] == "assistant" and not last.get("tool_calls")
    return writer.finish("completed" if is_answered else None)


TEAM: list[dict[str, str]] = [
    {"role": "human", "content": "How high is it?"},
    {"role": "Orchestrator (-> WebSurfer)", "content": "Open the page."},
    {"role": "WebSurfer", "content": "I opened the page."},
    {"role": "Orchestrator (thought)", "content": "It says 7 m."},
]
"""A conversation of several agents: roles are names, nothing has an id or a time."""


def team_run(messages: list[dict[str, str]]) -> Run:
    """Return the run of a conversation of several agents."""
    writer = RunWriter(Origin("magentic_one", "team.json"))
    for message in messages:
        author = message["role"].partition(" (")[0]
        if author == "human":
            writer.say(message["content"], author=author)
        else:
            writer.reply(message["content"], author=author)
    return writer.finish()
