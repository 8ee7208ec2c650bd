"""What a model is told of the context of a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from agentnb.chat.context_spec import CONFIRM, ContextSpec
from agentnb.chat.prompts import prompt

MAX_CHARACTERS = 20_000
"""Of the text about an entity."""
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


def _filled(name: str, context: ContextSpec, entity: str, **more: str) -> str:
    confirmed = ", ".join(context.tools.get(CONFIRM, ()))
    values = {
        "about": f"{context.name}, {msgspec.json.encode(entity).decode()}" if entity else context.name,
        "intent": context.intent.strip(),
        "behaviours": "\n".join(f"- {line}" for line in context.behaviours),
        "confirm": f"The person is asked before each of these calls: {confirmed}." if confirmed else "",
        **more,
    }
    parts = prompt(name).split("\n\n")
    for key, value in values.items():
        parts = [part.replace(f"{{{{ {key} }}}}", value) for part in parts]
    return "\n\n".join(part for part in parts if part.strip())
