"""Cases of a counterpart with their outcomes, and the runs that are tried with every model server."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from environments import Missing

from agentnb.agent.agent import Agent
from agentnb.detect.run import Run
from agentnb.errors import RequestRefused

START_SECONDS = 180
NO_TOOLS = "This model does not support tools"
"""The begin of the advice about such a model."""
CUT = ("reply_cut", "max_rounds", "empty_answer")
"""Reasons for which runs of a model that is very small end."""


class Case(NamedTuple):
    """A case that was tried; ``problem`` is empty if it passed."""

    name: str
    problem: str = ""


def placed(value: Any, **places: str) -> Any:
    """Return a part of a row with texts in the places of ``{name}``."""
    if isinstance(value, dict):
        return {name: placed(part, **places) for name, part in value.items()}
    if isinstance(value, list):
        return [placed(part, **places) for part in value]
    if isinstance(value, str):
        for name, text in places.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def free_port() -> int:
    """Return a port of this machine that nothing listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def started(command: list[str], ready: str, folder: Path, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run a server until the block ends, which begins once the address ``ready`` answers. Raises `Missing` if it does not."""
    log = folder / "server.log"
    with log.open("wb") as written, subprocess.Popen(command, cwd=folder, env=env, stdout=written, stderr=written) as process:
        try:
            _wait(process, ready, log)
            yield
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[bytes], ready: str, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(ready, timeout=5):
                return
        except urllib.error.HTTPError as error:
            if error.code < 500:  # it listens, and wants something else at this address
                return
        except OSError:
            pass
        time.sleep(0.2)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no word"]
    raise Missing(f"it did not start: {lines[-1][:200]}")


def doors(address: str, model: str = "gpt-4o") -> dict[str, str]:
    """Return the models of a server that speaks all three wires, by wire."""
    return {
        "Chat": f"compatible:{model}?url={address}/v1",
        "Responses": f"openai-responses:{model}?url={address}/v1",
        "Messages": f"anthropic:{model}?url={address}",
    }


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model_cases(models: Mapping[str, str], *, calls: bool = True, takes_tools: bool = True) -> Iterator[Case]:
    """Yield a run at each model, whole and streamed, without tools and with one.

    ``models``: names of models for agentnb by the door they go through; ``calls``: whether each must make the call of its tool
    and end by itself, which small models do not; ``takes_tools``: whether tools are no reason to refuse the request.
    """
    for (door, model), stream, tools in product(models.items(), ("no", "yes"), (False, True)):
        name = f"{door}, {'streamed' if stream == 'yes' else 'whole'}{', tools' if tools else ''}"
        agent = Agent(f"{model}&stream={stream}", tools=[add] if tools else [], todos=False, max_rounds=3)
        try:
            run = agent.run_sync("What is 20 + 22? Use the tool." if tools else "Say hello.", approve="auto")
        except RequestRefused as error:
            is_expected = tools and not takes_tools and error.hint.startswith(NO_TOOLS)
            yield Case(name, "" if is_expected else str(error))
        else:
            yield Case(name, _problem(run, is_able=calls, wants_call=tools and calls))


def _problem(run: Run, *, is_able: bool, wants_call: bool) -> str:
    """Return the problem of a run; empty if it ended well, with a text and its token usage."""
    if run.status != "completed" and (is_able or run.stop_reason not in CUT):
        return f"{run.status}: {run.error or run.stop_reason}"
    if wants_call and not run.calls_made:
        return "no call was made"
    if is_able and not run.text:
        return "no text"
    return "" if run.usage.input and run.usage.output else "no usage"
