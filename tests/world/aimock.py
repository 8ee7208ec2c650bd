"""aimock: a server that imitates providers, with answers of its own making on each wire."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpart_cases import Case, doors, free_port, model_cases, started
from environments import Environment

CALL = {"name": "add", "arguments": json.dumps({"a": 20, "b": 22})}
USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "input_tokens": 20, "output_tokens": 5}
ANSWERS = [
    {"match": {"turnIndex": 1}, "response": {"content": "It is 42.", "usage": USAGE}},
    {"match": {"userMessage": "Use the tool", "turnIndex": 0}, "response": {"toolCalls": [CALL], "usage": USAGE}},
    {"match": {"userMessage": "Say hello"}, "response": {"content": "Hello there, from the mock server.", "usage": USAGE}},
]
TRIED = "Chat, Responses, Messages: whole, streamed; tools"


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield a run on each wire of the server."""
    with tempfile.TemporaryDirectory() as made:
        folder, port = Path(made), free_port()
        (folder / "answers.json").write_text(json.dumps({"fixtures": ANSWERS}), encoding="utf-8")
        command = [environment.program("llmock"), "-p", str(port), "-f", "answers.json", "--strict"]
        address = f"http://127.0.0.1:{port}"
        with started(command, address, folder):
            yield from model_cases(doors(address), calls=True)
