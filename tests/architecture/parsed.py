"""The package as syntax trees, which the tests here share."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "agentnb"


def parse(path: Path) -> ast.Module:
    """Return the tree of a file, which is one of `trees` for files of the package."""
    return trees()[path] if path.is_relative_to(PACKAGE) else ast.parse(path.read_text(encoding="utf-8"))


@cache
def trees() -> dict[Path, ast.Module]:
    """Each file of the package and its tree. Parsed when first asked for: every worker imports every test."""
    gc.disable()  # a million nodes that stay: to look through them again and again would take 4 of 6 s
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    finally:
        gc.freeze()
        gc.enable()


@cache
def walk(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a file of the package. Kept, because a dozen tests look at all of them."""
    return nodes_of(tree)


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of a tree but those that say how a name is used."""
    nodes = [tree]
    for node in nodes:
        nodes += _children(node)
    return nodes


def _children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes`, which takes three times as long."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        if isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            found.append(value)
    return found


@cache
def calls(tree: ast.Module) -> list[tuple[str, ast.Call]]:
    """Each call of a file, with the function around it."""
    return [*_calls(tree, ())]


def _calls(node: ast.AST, inside: tuple[str, ...]) -> Iterator[tuple[str, ast.Call]]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        inside = (*inside, node.name)
    if isinstance(node, ast.Call):
        yield ".".join(inside), node  # of a module's own code: no name
    for child in _children(node):
        yield from _calls(child, inside)
