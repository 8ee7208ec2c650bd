"""Prompts that chats send to models: contexts, plans and reviews."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")


@cache
def prompt(name: str) -> str:
    """Return the text of ``NAME.md`` in this folder."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill in the placeholders in a single pass, so that placeholders in inserted values are left as they are."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)
