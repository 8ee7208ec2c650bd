"""Writes small session files of coding agents, and counts the contents of files from their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def claude_user(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "message": message} | more


def claude_result(uuid: str, parent: str, call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return claude_user(uuid, parent, [block | more.pop("block", {})], **more)


def claude_reply(uuid: str, parent: str | None, message_id: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    texts = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    message = {"id": message_id, "role": "assistant", "model": "claude-x", "content": texts} | more.pop("message", {})
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "message": message} | more


def claude_call(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
