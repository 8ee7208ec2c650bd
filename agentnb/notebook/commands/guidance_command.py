"""Guidance sets for cells and commands: lookup, confirmation and display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.display.texts.labels import clean
from agentnb.guidance import BUILT_IN, GuidanceSet
from agentnb.guidance.parts import part_name
from agentnb.session.session import Session


def find_guidance(name: str, session: Session, variables: Mapping[str, Any]) -> GuidanceSet:
    """Return the set with this name: written in a cell, held by a variable, or built in."""
    value = variables.get(name)
    return value if isinstance(value, GuidanceSet) and name not in session.sets else session.find_set(name)


def written_message(made: GuidanceSet) -> str:
    """Return the message shown by a cell that wrote a set."""
    own = ", ".join(made.own_parts()) or "nothing"
    sentence = f"Guidance set {made.name}, version {made.version}. Own parts: {own}. The rest comes from matrix."
    return f"{sentence} Use it: %%agent -g {made.name}"


def set_lines(session: Session) -> list[str]:
    """Return a line for each set."""
    sets = [*(session.find_set(name) for name in BUILT_IN), *session.sets.values()]
    return [f"{guidance_set.name:<16} version {guidance_set.version}  {_about(guidance_set)}" for guidance_set in sets]


def set_text(one: GuidanceSet, part: str = "") -> str:
    """Return the set as the Markdown that would write it, either all of it or one part."""
    if part:
        return clean(one.parts[part_name(part)])
    return clean(f"{one.name}, version {one.version}\n\n{one.markdown()}")


def _about(guidance_set: GuidanceSet) -> str:
    if guidance_set.name in BUILT_IN:
        return {
            "matrix": "built in: reminders by open todos and tool use, stronger when ignored",
            "off": "built in: no guidance",
        }[guidance_set.name]
    return f"own parts: {', '.join(guidance_set.own_parts()) or 'none'}"
