"""Large JSON documents are read in parts."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.interchange import json_parts
from agentnb.interchange.json_parts import Malformed, TooLarge, parts_of
from agentnb.interchange.trace_file import decode_json

words = st.text('ab"\\[]{},: \nü', max_size=6)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=12,
)
documents = st.one_of(st.dictionaries(words, values, max_size=4), st.lists(values, max_size=4))


def put_together(data: bytes, most: int = 1_000_000) -> Any:
    """Assemble the document from its parts."""
    members: dict[str, Any] = {}
    items: list[Any] = []
    for part in parts_of(io.BytesIO(data), most, decode_json):
        value = json.loads(part.data)
        if part.place is None:
            members[part.key] = value
            continue
        listed = members.setdefault(part.key, []) if data.lstrip().startswith(b"{") else items
        assert part.place == len(listed)
        listed.append(value)
    return members if data.lstrip().startswith(b"{") else items


@examples(300)
@given(documents, st.sampled_from([None, 1]), st.integers(1, 30), st.booleans())
def test_parsed_parts_reassemble_to_the_document(document: Any, indent: int | None, block: int, plain: bool) -> None:
    data = json.dumps(document, indent=indent, ensure_ascii=plain).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_parts, "BLOCK_BYTES", block)
        assert put_together(data) == document


@examples(200)
@given(documents, st.integers(1, 9), st.data())
def test_truncated_document_is_invalid_json(document: Any, block: int, data: st.DataObject) -> None:
    whole = json.dumps(document).encode()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Malformed):
        patch.setattr(json_parts, "BLOCK_BYTES", block)
        put_together(cut)


def test_oversized_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_parts, "BLOCK_BYTES", 100)
    document = {"small": [1, 2], "large": ["x" * 5_000]}
    assert put_together(json.dumps(document).encode(), 6_000) == document
    with pytest.raises(TooLarge, match=r"larger than 0 MB"):
        put_together(json.dumps(document).encode(), 2_000)
