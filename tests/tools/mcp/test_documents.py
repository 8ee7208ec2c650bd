"""Settings documents in JSON, YAML and TOML: values, and locations in errors."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb.errors import SettingsError
from agentnb.tools.mcp.documents import read_document

SECRET = "tide-7f3a9b21c4"
VALUE = {"a": {"b": ["x", 1, True, None, 1.5]}, "c": ""}
JSON = '{"a": {"b": ["x", 1, true, null, 1.5]}, "c": ""}'
YAML = "a:\n  b: [x, 1, true, ~, 1.5]\nc: ''\n"


def test_every_document_format_yields_the_same_value(subtests: pytest.Subtests) -> None:
    for name, text, value in (
        ("a.json", JSON, VALUE),
        ("no ending", f"\n\n{JSON}", VALUE),
        ("a.jsonc", f"// first\n{JSON} /* {{ last, */", VALUE),
        ("no ending, comment", f"/* first */ {JSON}", VALUE),
        ("trailing commas", JSON.replace("}", ",}").replace("]", ",]"), VALUE),
        ("slashes in texts", '{"a": "http://x/*", /* " */ "c": "//"}', {"a": "http://x/*", "c": "//"}),
        ("byte order mark", f"\ufeff{JSON}", VALUE),
        ("a.yaml", YAML, VALUE),
        ("a.YML", JSON, VALUE),
        ("no ending, YAML", f"# a comment\n{YAML}", VALUE),
        ("words that are texts in YAML", "a: on\nb: 2026-10-01\nc: &x y\nd: *x", {"a": "on", "c": "y", "d": "y"}),
        ("a.toml", '[a]\nb = ["x", 1]\n', {"a": {"b": ["x", 1]}}),
        ("no ending, TOML", '# a comment\n[a."x"]\nb = 1\n', {"a": {"x": {"b": 1}}}),
        ("no ending, TOML with keys only", "a.b = 1\n", {"a": {"b": 1}}),
        ("empty.yaml", "", None),
    ):
        with subtests.test(name):
            result: Any = read_document(text, name).value
            assert (result | {"b": ...} if name.startswith("words") else result) == (
                value | {"b": ...} if name.startswith("words") and value else value
            )


def test_errors_state_the_position_of_the_value(subtests: pytest.Subtests) -> None:
    for name, text, place in (
        ("a.json", '{"x": 1,\n "a": {"b": [1, {"c": 2}]}}', "a.json, line 2, column 23: wrong"),
        ("a.jsonc", '{"x": 1, // "a": {\n "a": {"b": [1, {/* , */ "c": 2,},],}}', "a.jsonc, line 2, column 31: wrong"),
        ("a.yaml", "x: 1\na:\n  b:\n  - 1\n  - c: 2\n", "a.yaml, line 5, column 8: wrong"),
        ("a.toml", "[[a.b]]\n[[a.b]]\nc = 2", "a.toml: wrong"),
    ):
        with subtests.test(name):
            assert read_document(text, name).error(("a", "b", 1, "c"), "wrong").what == place


BROKEN = {
    "a.json": f'{{"a": "{SECRET}",\n "b" }}',
    "after a comment.json": f'{{"a": "{SECRET}", // c\n "b" }}',
    "not closed.json": f'{{"a": "{SECRET}',
    "twice.json": f'{{"a": 1,\n "a": "{SECRET}"}}',
    "twice after a comment.json": f'{{"a": 1, //\n "a": "{SECRET}"}}',
    "deep.json": '{"a": ' + "[" * 100_000,
    "deep after a comment.json": "// a\n" + "[" * 20_000,
    "long number.json": f'{{"a": {"9" * 5_000}}}',
    "half of a character.json": f'{{"a": ["{SECRET}",\n "\\ud83d"]}}',
    "a.yaml": f"a: {SECRET}\n b: c",
    "alias.yaml": f"a: *{SECRET}",
    "tag.yaml": f"a: !{SECRET} b",
    "escape.yaml": f'a: "\\q{SECRET}"',
    "twice.yaml": f"a: {SECRET}\na: b",
    "aliases of aliases.yaml": "\n".join(
        ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
    ),
    "itself.yaml": "a: &a [*a]",
    "merged without an end.yaml": "a: &a\n  <<: *a",
    "merged text.yaml": f"a:\n  <<: {SECRET}",
    "merges of merges.yaml": "\n".join(
        ["a0: &a0 {x: y}", *(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 9))]
    ),
    "deep.yaml": "a: " + "[" * 600,
    "a.toml": f'a = "{SECRET}"\nb = \n',
    "twice.toml": f'a = "{SECRET}"\na = 1\n',
    "no value.toml": f"a = {SECRET}",
}


def test_unreadable_document_is_an_error_without_its_text(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    for name, text in BROKEN.items():
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                read_document(text, name)
            assert str(raised.value) == snapshot(name)
            assert SECRET not in f"{raised.value!r} {raised.value}"
