"""``compatible:`` and ``ollama:``, servers that speak OpenAI's Chat Completions API: local servers and gateways.

They get only the fields that all of them know, and their replies are parsed leniently.
"""

from __future__ import annotations

from functools import partial

from agentnb.models.provider import COMMON_OPTIONS, Provider
from agentnb.models.providers.chat_chunks import ChatReading, as_stream
from agentnb.models.providers.openai import OTHERS, OpenAISdk, body

OPTIONS = COMMON_OPTIONS | {"effort", "temperature", "seed", "echo"}

COMPATIBLE = Provider(
    name="compatible",
    sdk=OpenAISdk(),
    path="/chat/completions",
    body=partial(body, minimal=True),
    reading=partial(ChatReading, own=OTHERS),
    as_stream=as_stream,
    options=OPTIONS,
    needs_key=False,
    sees=False,
)
OLLAMA = Provider(
    name="ollama",
    sdk=COMPATIBLE.sdk,
    path=COMPATIBLE.path,
    body=COMPATIBLE.body,
    reading=COMPATIBLE.reading,
    as_stream=as_stream,
    options=OPTIONS,
    needs_key=False,
    sees=False,
    url="http://127.0.0.1:11434/v1",
)
