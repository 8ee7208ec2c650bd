"""The list of models, in each provider's format."""

from __future__ import annotations

from typing import Any

AT = "2026-09-01T00:00:00Z"


def models_body(model: str, anthropic: bool) -> dict[str, Any]:
    """Return a list containing only this model."""
    if not anthropic:
        return {"object": "list", "data": [{"id": model, "object": "model", "created": 1_788_220_800, "owned_by": "agentnb"}]}
    entry = {
        "type": "model",
        "id": model,
        "display_name": model.title(),
        "created_at": AT,
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }
    return {"data": [entry], "has_more": False, "first_id": model, "last_id": model}
