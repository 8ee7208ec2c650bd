"""The glossary is short, and words that its words replaced are gone from docs, notebooks, docstrings and messages."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from parsed import PACKAGE, trees, walk
from prose_count import SETTINGS

ROOT = PACKAGE.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
MAX_WORDS = 40
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)


def glossary_rows() -> list[tuple[str, str]]:
    """Return the words with their meanings."""
    return ROW.findall(GLOSSARY.read_text(encoding="utf-8"))[1:]


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages and the Markdown of notebooks, without the glossary itself, each on one line."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if path != GLOSSARY:
            yield path, " ".join(path.read_text(encoding="utf-8").split())
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        markdown = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        yield path, " ".join(" ".join(markdown).split())


def texts_of_package() -> Iterator[tuple[Path, str]]:
    """Yield docstrings and strings of several words."""
    for path, tree in trees().items():
        for node in walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield path, " ".join(node.value.split())


def test_glossary_has_at_most_forty_words() -> None:
    words = glossary_rows()
    assert words
    assert len(words) <= MAX_WORDS


def test_replaced_words_do_not_occur() -> None:
    replaced = SETTINGS["replaced"]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, replaced))})\b", re.IGNORECASE)
    places = [
        f"{path.relative_to(ROOT)}: {text[max(0, word.start() - 40) : word.end() + 40]!r}: {replaced[word[0].lower()]}"
        for path, text in (*pages(), *texts_of_package())
        for word in pattern.finditer(text)
    ]
    assert places == [], "\n".join(places)
