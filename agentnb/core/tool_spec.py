"""What a model is told about a tool."""

from __future__ import annotations

from typing import Any

import msgspec


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Name, description and JSON Schema (an object) of a tool's arguments, as the model sees them."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    effects: tuple[str, ...] = ()
    """What the tool does to the world, as far as that is known; no model is sent it."""
