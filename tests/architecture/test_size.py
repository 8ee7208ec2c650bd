"""The size of each room, in tokens of code: a feature pays for itself."""

from __future__ import annotations

import ast
import io
import tokenize
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
F_STRING_START, F_STRING_END = (getattr(tokenize, name, -1) for name in ("FSTRING_START", "FSTRING_END"))
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def tokens_of(tree: ast.Module, source: str) -> int:
    """Count the tokens of code of a module, without comments and docstrings."""
    bodies = [body for node in walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    texts = {
        (one.lineno, one.col_offset)
        for body in bodies
        for one in body
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
    }
    count = depth = 0
    for one in tokenize.generate_tokens(io.StringIO(source).readline):
        # Since Python 3.12 an f-string is many tokens: here it is one, as before.
        count += depth == 0 and one.type not in NO_CODE and one.start not in texts
        depth += (one.type == F_STRING_START) - (one.type == F_STRING_END)
    return count


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
