"""Contents of resources and prompts of MCP servers, for a model and for a person."""

from __future__ import annotations

from base64 import b64encode

import pytest
from mcp.types import BlobResourceContents, PromptMessage, TextContent, TextResourceContents

from agentnb.core.messages import Text
from agentnb.tools.mcp.resources import Contents, contents_of, contents_parts, prompt_text

HIDDEN = "seen\x1b[31m\U000e0041\ud800"
"""A text with characters that only models see."""


def test_each_of_several_contents_follows_its_uri() -> None:
    pages = [TextResourceContents(uri=f"memo://{n}", text=str(n)) for n in range(2)]
    texts = [part.text for part in contents_parts(pages) if isinstance(part, Text)]
    assert texts == ["memo://0:", "0", "memo://1:", "1"]


def test_user_receives_text_as_strings_and_other_content_as_bytes() -> None:
    page = TextResourceContents.model_construct(uri="memo://1", text=HIDDEN, mime_type="text/plain\nforged")
    contents = contents_of([page, BlobResourceContents(uri="memo://2", blob=b64encode(b"\0\1").decode())])
    assert contents == [Contents("seen[31m\N{REPLACEMENT CHARACTER}", "text/plain forged"), Contents(b"\0\1", "")]
    with pytest.raises(ValueError, match="base64"):
        contents_of([BlobResourceContents(uri="memo://3", blob="%%%")])


def test_each_of_several_prompt_messages_follows_its_role() -> None:
    said = [PromptMessage(role=role, content=TextContent(type="text", text=text)) for role, text in _SAID]
    assert prompt_text(said[:1]) == "Review it."
    assert prompt_text(said) == "user:\nReview it.\nassistant:\nIt is good."


_SAID = [("user", "Review it."), ("assistant", "It is good.")]
