"""Servers that speak OpenAI's Chat Completions API, a row each in ``servers.toml``: local servers, gateways, other providers.

Their replies are parsed leniently, and they get only the fields that all of them know, or their row.
"""

from __future__ import annotations

from agentnb.models.providers import openai
from agentnb.settings import SERVERS

PROVIDERS = {
    name: provider_of
    for name, provider_of in (
        (name, openai.provider_of(name, row)) for name, row in SERVERS.items() if row["wire"] == "chat" and name != openai.NAME
    )
}
