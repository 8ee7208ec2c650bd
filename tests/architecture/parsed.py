"""The package as syntax trees, which the tests here share."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "agentnb"


@cache
def trees() -> dict[Path, ast.Module]:
    """Each file of the package and its tree. Parsed when first asked for: every worker imports every test."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
