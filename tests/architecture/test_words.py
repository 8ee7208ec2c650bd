"""Names are the field's: no definition bears one of the private names that the code once had."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from parsed import PACKAGE, trees, walk

MODULES = {
    "purse": "budget",
    "hearing": "stream_buffer",
    "asking": "elicitation",
    "taking_up": "resume",
    "closing": "run_end",
    "shortening": "result_truncation",
    "pairs": "tool_pairing",
    "reply": "normalize_reply",
    "todo_check": "todo_sync",
    "conversation": "request_builder",
    "past_requests": "request_history",
    "failures": "tool_errors",
    "moves": "planner",
    "sight": "observation, request_view",
    "plan_text": "plan_parser",
    "faults": "a part of simulated",
    "personas": "a part of simulated",
    "stall": "idle_timeout",
    "wire_parts": "serialization",
    "waits": "wait_state",
    "tallies": "counters",
    "asides": "round_notes",
    "findings": "round_warnings, in round_notes",
    "said": "user_messages",
    "wording": "labels",
    "one_line": "magic_errors",
    "chosen": "agent_options",
    "offers": "choices",
}
"""Files are not called so; and what to call them."""
CLASSES = {
    "Purse": "Budget",
    "Hearing": "StreamBuffer",
    "Asking": "Elicitation",
    "TodoCheck": "TodoSync",
    "Conversation": "RequestBuilder",
    "Seen": "SentRequest",
    "Sight": "Observation",
    "Waits": "WaitState",
    "Tallies": "Counters",
    "Conduct": "RoundFacts",
    "Breach": "TodoViolation",
    "Rules": "PolicyBundle",
    "SpentBesides": "ExtraUsage",
    "Said": "UserMessages",
    "Chosen": "AgentOptions",
    "Task": "RunOptions",
}
ANYTHING = {
    "purse": "budget",
    "hearing": "stream_buffer",
    "asking": "elicitation",
    "taking_up": "resume",
    "said_in_passing": "ephemeral_text",
    "in_passing": "ephemeral",
    "passing": "transient, ephemeral",
    "said": "user_messages, or what it is: reported, details",
    "besides": "extra, side",
    "spared": "redact",
    "without_secrets": "redact",
    "without_key": "redact",
    "sight": "observation, request_view",
    "stall": "idle_timeout",
    "tallies": "counters",
    "conduct": "facts",
    "breach": "violation",
    "breaches": "todo_violations",
    "resting_todos": "carried_todos",
    "resting_board": "carried_board",
    "asides": "round_notes",
    "wording": "labels",
    "offers": "choices",
}
"""Functions, parameters, variables and attributes are not called so."""
ALLOWED = {
    "models/simulated/faults.py": "in this folder the name says what it is: what the simulated model does wrong",
    "models/simulated/personas.py": "the personas that people type: simulated:PERSONA",
    "models/options.py:stall": "an option that people type: ?stall=30",
    "notebook/panel/__init__.py:offers": "as in widgets.py",
    "notebook/panel/panel_widgets.py:offers": "a trait that the panel's script reads",
}
"""Old names that stay, and why."""
TRANSLATED = {
    r"(?<!there )\b(is|are) no (?!longer|more)": "is not a",
    r"\b(go|goes|went) on with (%%agent )?--continue": "continue with",
    r"\b(go|goes|going) on then\b": "then continue",
    r"\bwords (alone|only)\b|\bin words\b": "a text-only reply, as text",
    r"\(otherwise\b": "(default:",
    r"\bhears?\b": "receives, responds",
    r"\b(are|is|was) told\b": "is reported, is sent",
    r"\bturns? in circles\b": "loops",
    r"\bstands in its place\b": "a placeholder",
    r"\banew\b": "again",
}
"""Turns of phrase that sound translated, and what to write instead. The simulated model may talk as it likes."""


def defined(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """The kind, name and line of each class, and of each function, parameter, variable and attribute."""
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "function", node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield "parameter", node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield "variable", node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield "attribute", node.attr, node.lineno


def old_names() -> Iterator[tuple[str, str]]:
    """Yield the place of each old name, as ``file`` or ``file:name``, and the new name."""
    for file, tree in trees().items():
        path = file.relative_to(PACKAGE).as_posix()
        stem = Path(path).stem
        if stem in MODULES:
            yield path, MODULES[stem]
        for kind, name, _ in defined(tree):
            known = CLASSES if kind == "class" else ANYTHING
            if (bare := name.strip("_")) in known:
                yield f"{path}:{name}", known[bare]
            elif re.match(r"_?MOST(_|$)", name):
                yield f"{path}:{name}", "MAX_..."


def test_definitions_do_not_use_replaced_names() -> None:
    assert {place: better for place, better in old_names() if place not in ALLOWED} == {}


def test_allowed_old_names_still_exist() -> None:
    assert set(ALLOWED) - {place for place, _ in old_names()} == set()


def sentences(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The text and line of each string constant of several words that is no docstring."""
    docs = {node.value for node in walk(tree) if isinstance(node, ast.Expr)}
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs and " " in node.value.strip():
            yield node.value, node.lineno


def test_sentences_do_not_sound_translated() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line}: {text}": better
        for path, tree in trees().items()
        if PACKAGE / "models" / "simulated" not in path.parents
        for text, line in sentences(tree)
        for phrase, better in TRANSLATED.items()
        if re.search(phrase, text, re.IGNORECASE)
    }
    assert found == {}
