"""The only place that reads the environment.

======================  ==================================================================
``AGENTNB_MODEL``       the model of cells that name none, such as ``simulated:disciplined``
``ANTHROPIC_API_KEY``   a key for ``anthropic:`` models
``OPENAI_API_KEY``      a key for ``openai:`` and ``openai-responses:`` models
======================  ==================================================================
"""

from __future__ import annotations

import os

KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
}
"""Which variable holds the key of which provider."""


def default_model() -> str | None:
    """The model named by ``AGENTNB_MODEL``, or None."""
    return os.environ.get("AGENTNB_MODEL", "").strip() or None


def has_key(provider: str) -> bool:
    """Whether the environment holds a key for this provider. The key itself is never handed out here."""
    return bool(os.environ.get(KEY_VARIABLES.get(provider, ""), "").strip())


def providers_with_key() -> list[str]:
    """The providers for which the environment holds a key, in the order of `KEY_VARIABLES`."""
    return [provider for provider in KEY_VARIABLES if has_key(provider)]
