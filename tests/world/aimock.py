"""aimock: a server that imitates providers, with answers of its own making on each wire."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpart_cases import Case, free_port, model_cases, started
from environments import Environment

CALL = {"name": "add", "arguments": json.dumps({"a": 20, "b": 22})}
ANSWERS = [
    {"match": {"hasToolResult": True}, "response": {"content": "It is 42."}},
    {"match": {"userMessage": "Use the tool", "hasToolResult": False}, "response": {"toolCalls": [CALL]}},
    {"match": {"userMessage": "Say hello"}, "response": {"content": "Hello there, from the mock server."}},
]


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield a run on each wire of the server."""
    with tempfile.TemporaryDirectory() as made:
        folder, port = Path(made), free_port()
        (folder / "answers.json").write_text(json.dumps({"fixtures": ANSWERS}), encoding="utf-8")
        command = [environment.program("llmock"), "-p", str(port), "-f", "answers.json", "--strict"]
        address = f"http://127.0.0.1:{port}"
        with started(command, address, folder):
            yield from model_cases(doors(address), calls=True)


def doors(address: str, model: str = "gpt-4o") -> dict[str, str]:
    """Return the models of a server that speaks all three wires, by wire."""
    return {
        "Chat": f"compatible:{model}?url={address}/v1",
        "Responses": f"openai-responses:{model}?url={address}/v1",
        "Messages": f"anthropic:{model}?url={address}",
    }
