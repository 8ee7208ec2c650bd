"""Words about runs: no control characters, lengths told, durations that read naturally."""

from __future__ import annotations

import pytest

from agentnb.display import wording


def test_control_characters_are_made_visible() -> None:
    assert wording.clean("a\x1b[31m\x00\u202eb\tc\nd\r\ne") == "a\ufffd[31m\ufffd\ufffdb\tc\nd\ne"


def test_long_results_are_cut_with_their_length() -> None:
    assert wording.cut("x" * 30, 10) == "x" * 10 + " … (20 more characters)"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0001, "under 1 ms"), (0.038, "38 ms"), (0.9996, "1.0 s"), (2.44, "2.4 s"), (187, "3:07")]
)
def test_durations_read_naturally(seconds: float, words: str) -> None:
    assert wording.duration(seconds) == words
