"""The package as syntax trees, which the tests here share."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "agentnb"


@cache
def trees() -> dict[Path, ast.Module]:
    """Each file of the package and its tree. Parsed when first asked for: every worker imports every test."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def walk(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a file. Kept, because a dozen tests look at all of them."""
    return list(ast.walk(tree))


def calls(node: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call below the node, with the function around it."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        inside = (*inside, node.name)
    if isinstance(node, ast.Call):
        yield ".".join(inside), node  # of a module's own code: no name
    for child in ast.iter_child_nodes(node):
        yield from calls(child, inside)
