"""Output in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.tools.builtin.shell import output
from agentnb.tools.builtin.shell.output import HEAD_BYTES, TAIL_BYTES, BoundedOutput


def kept(*chunks: bytes) -> BoundedOutput:
    made = BoundedOutput()
    for chunk in chunks:
        made.add(chunk)
    return made


def test_short_output_is_kept_whole() -> None:
    assert kept().text == ""
    assert kept(b"a\n", b"", "ü€".encode()).text == "a\nü€"
    assert kept(b"x" * (HEAD_BYTES + TAIL_BYTES)).text == "x" * (HEAD_BYTES + TAIL_BYTES)


@pytest.mark.req("R2.23")
def test_long_output_keeps_its_head_and_tail() -> None:
    made = kept(b"head", b"x" * HEAD_BYTES, *[b"y" * 10_000] * 100, b"tail")
    text = made.text
    assert text.startswith("headxxx") and text.endswith("ytail")
    assert f"[... {8 + HEAD_BYTES + 1_000_000 - HEAD_BYTES - TAIL_BYTES:,} bytes left out ...]" in text
    assert len(text) < HEAD_BYTES + TAIL_BYTES + 60


def test_memory_stays_bounded_while_output_comes() -> None:
    made = BoundedOutput()
    for _ in range(200):
        made.add(b"z" * 65_536)
        assert len(made._head) + len(made._tail) <= HEAD_BYTES + 2 * TAIL_BYTES


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert kept(b"a\xff\xfeb\n").text == "a\ufffd\ufffdb\n"


@examples(60)
@given(st.text(alphabet="aü€😀", min_size=0, max_size=60), st.integers(1, 7))
def test_a_cut_divides_no_character(text: str, size: int) -> None:
    data = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "HEAD_BYTES", 10)
        patch.setattr(output, "TAIL_BYTES", 10)
        shown = kept(*[data[start : start + size] for start in range(0, len(data), size)]).text
    if len(data) <= 20:
        assert shown == text
        return
    head, _, rest = shown.partition("\n[... ")
    left_out, _, tail = rest.partition(" bytes left out ...]\n")
    assert text.startswith(head) and text.endswith(tail)
    assert int(left_out) == len(data) - len(head.encode()) - len(tail.encode())
