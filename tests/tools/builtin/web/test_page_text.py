"""The text of a page: its type and its characters."""

from __future__ import annotations

import pytest

from agentnb.tools.builtin.web.page_text import decode_body, is_text, page_text


def test_text_types_are_recognized() -> None:
    for kind in ("text/html", "TEXT/Plain; charset=x", "application/json", "application/atom+xml", "image/svg+xml", ""):
        assert is_text(kind)
    for kind in ("application/pdf", "image/png", "application/octet-stream", "application/zip", "video/mp4", "x"):
        assert not is_text(kind)


def test_characters_are_decoded_as_declared(subtests: pytest.Subtests) -> None:
    for name, (kind, body, text) in {
        "header": (
            "text/html; charset=iso-8859-1",
            b"caf\xe9 \x93x\x94",
            "café \N{LEFT DOUBLE QUOTATION MARK}x\N{RIGHT DOUBLE QUOTATION MARK}",
        ),
        "header, quoted": ('text/html; charset="UTF-8"', "café".encode(), "café"),
        "page": (
            "text/html",
            b'<meta charset="windows-1251">\xcf',
            '<meta charset="windows-1251">\N{CYRILLIC CAPITAL LETTER PE}',
        ),
        "page, older": (
            "text/html",
            b'<meta content="text/html; charset=koi8-r">\xf0',
            '<meta content="text/html; charset=koi8-r">\N{CYRILLIC CAPITAL LETTER PE}',
        ),
        "mark": ("text/html; charset=ascii", "\ufeffcafé".encode("utf-16"), "café"),
        "mark of UTF-8": ("text/plain", b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
        "Japanese": ("text/html; charset=Shift_JIS", "日本".encode("shift_jis"), "日本"),
        "default": ("text/plain", "café".encode(), "café"),
        "wrong": ("text/plain; charset=utf-8", b"caf\xe9!", "caf\N{REPLACEMENT CHARACTER}!"),
        "unknown": ("text/plain; charset=nonsense", b"x", "x"),
    }.items():
        with subtests.test(name):
            assert decode_body(kind, body).removeprefix("\ufeff") == text


def test_only_character_sets_of_the_web_are_decoded() -> None:
    for name in (
        "unicode_escape",
        "raw_unicode_escape",
        "idna",
        "punycode",
        "utf-7",
        "hex",
        "zlib",
        "rot13",
        "undefined",
        "x\0y",
    ):
        assert decode_body(f"text/plain; charset={name}", rb"\u0041") == rb"\u0041".decode()


def test_invisible_characters_are_removed() -> None:
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    assert page_text("text/plain", f"a{tags}b\x1b[31mc\0\td\r\ne\x9bf\u200d".encode(), "") == "ab[31mc\td\nef\u200d"
    assert page_text("text/html", f"<p>a{tags}b\x08".encode(), "") == "ab"


def test_page_without_a_type_is_sniffed() -> None:
    assert page_text("", b" \n<!DOCTYPE html><p>Hello <b>you", "") == "Hello you"
    assert page_text("", b"<b>Hello", "") == "<b>Hello"
    assert page_text("application/xhtml+xml", b"<p>Hello</p>", "") == "Hello"
