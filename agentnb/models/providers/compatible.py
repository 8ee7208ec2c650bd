"""Servers that speak OpenAI's Chat Completions API, a row each in ``servers.toml``: local servers, gateways, other providers.

Their replies are parsed leniently, and they get only the fields that all of them know, or that their row names.
"""

from __future__ import annotations

from agentnb.models.providers import openai
from agentnb.settings import SERVERS

_ROWS = {name: row for name, row in SERVERS.items() if row["wire"] == "chat" and name != openai.NAME}
PROVIDERS = {name: openai.provider_of(name, row) for name, row in _ROWS.items()}
