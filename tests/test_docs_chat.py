"""docs/chat.md is current: its examples give their documented output, and it names every key, profile, context and limit."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from cells_in_ipython import in_notebook

from agentnb import Chat, ContextType
from agentnb.chat.context_spec import PLAN_RULE, PROFILES, TOOLS
from agentnb.chat.context_type import builtin_contexts
from agentnb.chat.defaults import MAX_CHARACTERS
from agentnb.chat.plans.planning import MODES, SPEC
from agentnb.core.run.timeline import CLARIFY_BLANK

TEXT = (Path(__file__).parents[1] / "docs" / "chat.md").read_text(encoding="utf-8")
CELLS = re.findall(r"^```(python|)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
CELL, USE = [text for kind, text in CELLS if not kind]
SCRIPT = "\n".join([text for kind, text in CELLS if kind])


def ran() -> dict[str, Any]:
    """Return the names that the Python example sets."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(SCRIPT, names)  # the page's own code
    return names


def test_python_example_produces_the_documented_output() -> None:
    names = ran()
    first, second = names["first"], names["second"]
    assert first.text == "Deleted." and [question.outcome for question in first.questions] == ["answered"]
    assert "two gauges" in first.system
    assert f"# {(second.context_type, second.entity)!r}" in SCRIPT


def test_cells_run_in_the_order_of_the_page() -> None:
    shown = in_notebook(*[text for _, text in CELLS])
    assert "RESULT ('station', 'cork')" in shown and "Error" not in shown, shown


def test_documented_cells_define_and_use_a_context() -> None:
    line, yaml = CELL.split("\n", 1)
    context = ContextType.read(yaml, line.removeprefix("%%context "), ran())
    assert context.load is not None and context.confirms and context.limits["max_seconds"] == 60
    name, entity = re.findall(r"--context (\w+):(\w+)", USE)[0]
    assert (name, entity) == (context.name, "brest")
    assert set(re.findall(r"-t ([\w ]+)\n", USE)[0].split()) <= ran().keys()


def test_chat_page_names_every_key_profile_context_and_limit() -> None:
    keys = [field.name for field in fields(ContextType) if field.init and field.name != "name"]
    chat, words = Chat(), " ".join(TEXT.split())
    numbers = [f"{chat.max_tool_calls_per_turn} tool calls", f"{chat.max_seconds} seconds", f"{chat.tool_seconds} seconds"]
    names = [
        *keys,
        *TOOLS,
        *PROFILES,
        *PLAN_RULE,
        *(argument for argument in SPEC.input_schema["properties"] if argument != "auto_execute"),  # deprecated
        *MODES,
        *(one.name for one in builtin_contexts()),
        CLARIFY_BLANK,
        f"{MAX_CHARACTERS:,} characters",
    ]
    for name in (*names, *numbers):
        assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words), name
