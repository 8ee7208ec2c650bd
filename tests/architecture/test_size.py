"""The size of each room, in tokens of code: a feature pays for itself."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

from parsed import PACKAGE, trees, walk

SIZES = Path(__file__).with_name("size.toml")
ROOM_TO_GROW = 1.005
"""Factor by which a room may exceed its record, for a correction."""
OUT_OF_DATE = 0.97
SMALL = 200
"""Tokens of a new room that need no reason."""
TOKEN = re.compile(
    r"""
    (\#.*)                                                                            # comment
    | (?:\b[a-zA-Z]{1,2})? (?: (?P<triple>\"""|''') (?s:\\.|.)*? (?P=triple)
                          | "(?s:\\.|[^"\\])*" | '(?s:\\.|[^'\\])*' )             # text
    | \d[\w.]* (?:(?<=[eE])[+-]\d+)? | \.\d\w*                                        # number
    | \w+
    | \*\*=? | //=? | >>=? | << =? | -> | \.\.\. | [:+\-*/%&|^@=!<>]= | [^\s\\]
    """,
    re.VERBOSE,
)
"""A token of code: an f-string is one, however it is nested."""


def tokens_of(tree: ast.Module, source: str) -> int:
    """Count the tokens of code of a module, without comments and docstrings."""
    texts = sum(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for node in walk(tree)
    )
    return sum(not comment for comment, _ in TOKEN.findall(source)) - texts


def sizes() -> Counter[str]:
    """Return the tokens of each room; modules beside the rooms are ``top``."""
    found: Counter[str] = Counter()
    for path, tree in trees().items():
        parts = path.relative_to(PACKAGE).parts
        found[parts[0] if len(parts) > 1 else "top"] += tokens_of(tree, path.read_text(encoding="utf-8"))
    return found


def test_rooms_grow_only_with_a_stated_reason() -> None:
    recorded, now = tomllib.loads(SIZES.read_text())["rooms"], sizes()
    assert now.keys() == recorded.keys()
    too_large = {
        room: (size, recorded[room]["tokens"]) for room, size in now.items() if size > recorded[room]["tokens"] * ROOM_TO_GROW
    }
    assert too_large == {}, f"Make it smaller, or raise its tokens in {SIZES.name} and say what for"
    unexplained = [
        room for room, one in recorded.items() if one["tokens"] > one.get("base", SMALL) * ROOM_TO_GROW and not one.get("why")
    ]
    assert unexplained == [], f"Say in {SIZES.name} what these rooms have grown for"
    out_of_date = {room: size for room, size in now.items() if size < recorded[room]["tokens"] * OUT_OF_DATE}
    assert out_of_date == {}, f"Write its tokens of now into {SIZES.name}"
