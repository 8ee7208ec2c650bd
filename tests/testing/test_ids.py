from __future__ import annotations

import base64

import pytest

from agentnb.testing.ids import Ids, make_seal, open_seal


def test_sealed_value_can_be_opened() -> None:
    assert open_seal(make_seal(["a", {"b": None}])) == ["a", {"b": None}]


def test_seal_with_altered_content_cannot_be_opened() -> None:
    raw = base64.b64decode(make_seal(["rs_1", "thought"]))
    assert open_seal(base64.b64encode(raw.replace(b"thought", b"thinked")).decode()) is None


def test_other_text_is_not_recognized_as_a_seal(subtests: pytest.Subtests) -> None:
    for other in [None, 7, "", "no!", "c2lnbmVk", {}]:
        with subtests.test(other=other):
            assert open_seal(other) is None


def test_ids_are_deterministic_and_never_repeat() -> None:
    made = [[ids.letters("toolu_01", 22), ids.letters("toolu_01", 22), ids.hexadecimal("fc_")] for ids in (Ids(), Ids())]
    assert made[0] == made[1]
    assert len(set(made[0])) == 3
