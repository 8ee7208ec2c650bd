"""Contents of resources and prompts of MCP servers, for a model and for a person."""

from __future__ import annotations

from base64 import b64encode

import pytest
from mcp.types import BlobResourceContents, PromptMessage, TextContent, TextResourceContents

from agentnb.core.messages import Text
from agentnb.tools.mcp.resources import MAX_CHARACTERS, Contents, bounded, contents_of, contents_parts, prompt_text

HIDDEN = "seen\x1b[31m\U000e0041\ud800"
"""A text with what a model reads and no person sees."""


def test_several_contents_stand_behind_their_uris_within_one_limit() -> None:
    pages = [TextResourceContents(uri=f"memo://{n}", text="x" * (MAX_CHARACTERS - 100)) for n in range(3)]
    parts = bounded(contents_parts(pages))
    texts = [part.text for part in parts if isinstance(part, Text)]
    assert texts[0] == "memo://0:"
    assert texts[2] == "memo://1:"
    assert sum(text.count("x") for text in texts) <= MAX_CHARACTERS
    assert sum(map(len, texts)) < MAX_CHARACTERS + 500


def test_person_gets_texts_as_text_and_anything_else_as_bytes() -> None:
    page = TextResourceContents.model_construct(uri="memo://1", text=HIDDEN, mime_type="text/plain\nforged")
    found = contents_of([page, BlobResourceContents(uri="memo://2", blob=b64encode(b"\0\1").decode())])
    assert found == [Contents("seen[31m\N{REPLACEMENT CHARACTER}", "text/plain forged"), Contents(b"\0\1", "")]
    with pytest.raises(ValueError, match="base64"):
        contents_of([BlobResourceContents(uri="memo://3", blob="%%%")])


def test_several_messages_of_a_prompt_stand_behind_their_roles() -> None:
    said = [PromptMessage(role=role, content=TextContent(type="text", text=text)) for role, text in _SAID]
    assert prompt_text(said[:1]) == "Review it."
    assert prompt_text(said) == "user:\nReview it.\nassistant:\nIt is good."


_SAID = [("user", "Review it."), ("assistant", "It is good.")]
