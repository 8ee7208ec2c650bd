"""Prompts: Markdown files, each read only once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """Return the text of ``NAME.md`` in this folder."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
