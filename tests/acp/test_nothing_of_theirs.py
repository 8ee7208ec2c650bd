"""No prompt, tool description or code of an external agent is kept in fixtures, the notebook or logs.

Such texts are long, so each text here is shorter than `MAX_CHARACTERS`; a short one would not be noticed.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentnb import Agent
from agentnb.acp.turn_record import UNKNOWN_UPDATES

ROOT = Path(__file__).parents[2]
MAX_CHARACTERS = 1_000
NAMES_OF_THEIRS = ("inputSchema", "input_schema", "availableCommands", "sessionUpdate", "system-reminder")
"""Words that recorded requests and messages of agents have."""


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a file's data."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_of(item)


def test_fixtures_have_no_long_texts() -> None:
    folders = (Path(__file__).parent.iterdir(), ROOT.glob("tests/attacks/*foreign*"), ROOT.glob("tests/world/acp_*"))
    files = [file for folder in folders for file in folder if file.is_file()]
    assert {file.suffix for file in files} == {".py", ".toml"}
    for file in (*files, ROOT / "tests/world/counterparts.toml", ROOT / "agentnb/acp/known_agents.toml"):
        source = file.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(source)) if file.suffix == ".py" else ()
        data = tomllib.loads(source) if file.suffix == ".toml" else [getattr(node, "value", "") for node in nodes]
        assert max(map(len, texts_of(data))) < MAX_CHARACTERS, file.name


def test_notebook_outputs_have_no_texts_of_agents() -> None:
    notebook = json.loads((ROOT / "notebooks/11_any_agent.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    shown = ["".join(lines) for output in outputs for lines in (*output.get("data", {}).values(), output.get("text", ""))]
    texts = [text for page in shown for text in re.split("<[^>]*>", page)]
    assert len(texts) > 100 and max(map(len, texts)) < MAX_CHARACTERS
    assert [name for name in NAMES_OF_THEIRS if name in "".join(shown)] == []


def test_log_has_no_descriptions_of_the_agents_commands(fake: Callable[..., Agent]) -> None:
    run = fake().run_sync("settle")
    assert run.last_round.metadata[UNKNOWN_UPDATES]["available_commands_update"] == {"count": 1, "first": "{}"}
    assert "its own text" not in str(run.events)
