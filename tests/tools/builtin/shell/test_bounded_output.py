"""Output in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.tools.builtin.shell.bounded_output import USUAL, BoundedOutput, Bounds

HEAD_BYTES, TAIL_BYTES = USUAL


def kept(*chunks: bytes, bounds: Bounds = USUAL) -> BoundedOutput:
    output = BoundedOutput(bounds)
    for chunk in chunks:
        output.add(chunk)
    return output


def test_short_output_is_unchanged() -> None:
    assert kept().text == ""
    assert kept(b"a\n", b"", "ü€".encode()).text == "a\nü€"
    assert kept(b"x" * (HEAD_BYTES + TAIL_BYTES)).text == "x" * (HEAD_BYTES + TAIL_BYTES)


@pytest.mark.req("R2.23")
def test_long_output_keeps_its_head_and_tail() -> None:
    output = kept(b"head", b"x" * HEAD_BYTES, *[b"y" * 10_000] * 100, b"tail")
    text = output.text
    assert text.startswith("headxxx") and text.endswith("ytail")
    assert f"[... {8 + HEAD_BYTES + 1_000_000 - HEAD_BYTES - TAIL_BYTES:,} bytes left out ...]" in text
    assert len(text) < HEAD_BYTES + TAIL_BYTES + 60


def test_memory_stays_bounded_during_output() -> None:
    output = BoundedOutput()
    for _ in range(200):
        output.add(b"z" * 65_536)
        assert len(output.head) + len(output._rest) <= HEAD_BYTES + 2 * TAIL_BYTES + 100_000


def test_invalid_utf_8_is_replaced() -> None:
    assert kept(b"a\xff\xfeb\n").text == "a\ufffd\ufffdb\n"


@examples(60)
@given(st.text(alphabet="aü€😀", min_size=0, max_size=60), st.integers(1, 7))
def test_truncation_never_splits_a_character(text: str, size: int) -> None:
    data = text.encode()
    shown = kept(*[data[start : start + size] for start in range(0, len(data), size)], bounds=Bounds(10, 10)).text
    if len(data) <= 20:
        assert shown == text
        return
    head, _, rest = shown.partition("\n[... ")
    left_out, _, tail = rest.partition(" bytes left out ...]\n")
    assert text.startswith(head) and text.endswith(tail)
    assert int(left_out) == len(data) - len(head.encode()) - len(tail.encode())


def test_output_keeps_its_beginning_and_end() -> None:
    output = BoundedOutput(Bounds(3, 2))
    for chunk in (b"ab", b"cd", b"x" * 300_000, b"yz"):
        output.add(chunk)
    assert (bytes(output.head), output.tail, output.omitted_bytes) == (b"abc", b"yz", 300_001)
    whole = BoundedOutput(Bounds(3, 2))
    whole.add(b"abcde")
    assert (bytes(whole.head), whole.tail, whole.omitted_bytes) == (b"abc", b"de", 0)
