"""Foreign text: characters that are invisible to people are removed for models."""

from __future__ import annotations

from agentnb.core.messages import visible


def test_invisible_characters_are_removed() -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    assert visible(f"a{tags}b\x1b[31mc\0\td\r\ne\x9bf") == "ab[31mc\td\r\nef"
    words = "\N{FAMILY} \N{ZERO WIDTH JOINER} caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{CJK UNIFIED IDEOGRAPH-65E5}"
    assert visible(words) == words
