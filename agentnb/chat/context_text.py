"""What a model is told of the context of a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from agentnb.chat.context_spec import CONFIRM, ContextSpec
from agentnb.chat.prompts import prompt

MAX_CHARACTERS = 20_000
"""Of the text about an entity."""
_PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")
_TAG = re.compile(r"<(\s*/?\s*entity)", re.IGNORECASE)


def in_system_prompt(context: ContextSpec, entity: str, text: str, first: Iterable[str]) -> str:
    """Return the part of the system prompt. ``text``: about the entity; ``first``: the tools that are listed first."""
    names = ", ".join(first)
    about = _filled("context", context, entity, first=f"Use these tools first where they fit: {names}." if names else "")
    if not text:
        return about
    shown = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n[cut: {len(text):,} characters in all]"
    data = _TAG.sub(r"&lt;\1", shown)
    return f"{about}\n\n{prompt('entity').replace('{{ text }}', data)}"


def after_shift(context: ContextSpec, entity: str) -> str:
    """Return the reminder of the rounds after a shift to this context."""
    return _filled("context_shift", context, entity)


def _filled(name: str, context: ContextSpec, entity: str, first: str = "") -> str:
    about = f"{context.name}, {msgspec.json.encode(entity).decode()}" if entity else context.name
    confirmed = ", ".join(context.tools.get(CONFIRM, ()))
    return _text(name, about, context.intent.strip(), tuple(context.behaviours), confirmed, first)


@lru_cache(maxsize=64)
def _text(name: str, about: str, intent: str, behaviours: tuple[str, ...], confirmed: str, first: str) -> str:
    values = {
        "about": about,
        "intent": intent,
        "behaviours": "\n".join(f"- {line}" for line in behaviours),
        "confirm": f"The person is asked before each of these calls: {confirmed}." if confirmed else "",
        "first": first,
    }
    # Each part is filled once: a value that holds a placeholder stays text.
    parts = [_PLACEHOLDER.sub(lambda found: values[found[1]], part) for part in prompt(name).split("\n\n")]
    return "\n\n".join(part for part in parts if part.strip())
