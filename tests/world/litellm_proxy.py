"""LiteLLM's proxy before a strict server: runs go through each of its doors to the same wire behind it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpart_cases import Case, doors, free_port, model_cases, started
from environments import Environment

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.errors import AgentnbError, ContextOverflow
from agentnb.testing import LoopbackServer, overflow

BEHIND = {
    "Chat": ("chat", "openai/chat_completions/loopback"),
    "Responses": ("responses", "openai/responses/loopback"),
    "Messages": ("messages", "anthropic/loopback"),
}
"""The wires behind the proxy, with their names at the strict server and the models as the proxy writes them."""
TOO_LONG = "This is too long."
KEY, VARIABLE = "sk-of-the-proxy", "LITELLM_KEY"
TRIED = "before the strict server; Chat, Responses, Messages: whole, streamed; tools; overflow"


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield runs through each door of the proxy to the same wire behind it."""
    os.environ[VARIABLE] = KEY
    with tempfile.TemporaryDirectory() as made, LoopbackServer(_reply) as strict:
        folder, port = Path(made), free_port()
        (folder / "config.yaml").write_text(json.dumps(_settings(strict.url)), encoding="utf-8")
        program = environment.program("litellm")
        command = [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        address = f"http://127.0.0.1:{port}"
        local = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PATH": f"{environment.path}:{os.environ['PATH']}"}
        with started(command, f"{address}/health/liveliness", folder, local):
            for wire, (name, _) in BEHIND.items():
                for case in model_cases({wire: f"{doors(address, wire)[wire]}&key={VARIABLE}"}, calls=True):
                    others = [f"it asked on the wire {one.wire}" for one in strict.requests if one.wire != name]
                    problems = [case.problem, *strict.problems, *others]
                    strict.requests.clear()
                    yield case._replace(problem="; ".join(filter(None, problems)))
                yield Case(f"{wire}, too long", _of_too_long(f"{doors(address, wire)[wire]}&key={VARIABLE}"))
                strict.requests.clear()


def _settings(url: str) -> dict[str, Any]:
    models = [
        {
            "model_name": wire,
            "litellm_params": {"model": model, "api_base": url if wire == "Messages" else f"{url}/v1", "api_key": "sk-behind"},
        }
        for wire, (_, model) in BEHIND.items()
    ]
    return {"model_list": models, "general_settings": {"master_key": KEY}}


def _of_too_long(model: str) -> str:
    """Return the problem of the proxy's error for a conversation that is too long."""
    try:
        run = Agent(model, todos=False).run_sync(TOO_LONG)
    except ContextOverflow:
        return ""
    except AgentnbError as error:
        return str(error)
    return f"{run.status}: {run.error}"


def _reply(body: dict[str, Any]) -> Any:
    """Return the reply to a request: the call of a tool that has not been called yet, else a text."""
    if TOO_LONG in json.dumps(body):
        return overflow()
    asks = body.get("tools") and "42" not in json.dumps(body.get("messages", body.get("input")))
    return ToolCall("add", {"a": 20, "b": 22}) if asks else "It is 42, or hello."
