"""Texts for the model about the context of a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from agentnb.chat.context_spec import CONFIRM, ContextSpec
from agentnb.chat.prompts import filled, prompt

MAX_CHARACTERS = 20_000
"""Characters of the text about an entity; the rest is cut."""
_TAG = re.compile(r"<(\s*/?\s*entity)", re.IGNORECASE)


def context_section(context: ContextSpec, entity: str, text: str, first: Iterable[str]) -> str:
    """Return the section of the system prompt. ``text``: about the entity; ``first``: the tools that are listed first."""
    names = ", ".join(first)
    about = _filled("context", context, entity, first=f"Use these tools first where they fit: {names}." if names else "")
    if not text:
        return about
    shown = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n[cut: {len(text):,} characters in all]"
    data = _TAG.sub(r"&lt;\1", shown)
    return f"{about}\n\n{filled(prompt('entity'), {'text': data})}"


def shift_reminder(context: ContextSpec, entity: str) -> str:
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
    parts = [filled(part, values) for part in prompt(name).split("\n\n")]
    return "\n\n".join(part for part in parts if part.strip())
