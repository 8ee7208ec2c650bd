"""Contexts for cells and commands: listing, display and confirmation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.chat.context_spec import ContextSpec
from agentnb.display.texts.labels import clean, first_line
from agentnb.session.session import Session
from agentnb.workflow.form.yaml_source import as_yaml_text

MAX_INTENT = 70


def context_lines(session: Session) -> list[str]:
    """Return a line for each context."""
    return [
        clean(f"{context.name:<16} {context.profile:<9} {first_line(context.intent, MAX_INTENT)}")
        for context in session.contexts.known
    ]


def context_text(context: ContextSpec) -> str:
    """Return the text of the cell that writes the context."""
    return clean(f"%%context {context.name}\n{as_yaml_text(dict(_nonempty_settings(context)))}".rstrip())


def context_message(context: ContextSpec) -> str:
    """Return the message shown by a cell that wrote a context."""
    confirmed = ", ".join(rule.text for rule in context.confirms)
    asks = f" Asks before: {confirmed}." if confirmed else ""
    return clean(f"Context {context.name}, profile {context.profile}.{asks} Use it: %%agent --context {context.name}")


def _nonempty_settings(context: ContextSpec) -> Iterator[tuple[str, Any]]:
    """Yield the settings that are not empty."""
    yield from ((key, value) for key, value in context.data.items() if value and key != "name")
    if context.load is not None:
        yield "load", getattr(context.load, "__name__", "load")
