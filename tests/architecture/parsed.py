"""The package as syntax trees, which the tests here share."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "agentnb"
LEAVES = frozenset({ast.Name, ast.Constant, ast.alias, ast.Pass, ast.Global, ast.Nonlocal, *ast.operator.__subclasses__()})
"""Most nodes: no other node is below them."""
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def parse(path: Path) -> ast.Module:
    """Return the tree of a file, which is one of `trees` for files of the package."""
    if path.is_relative_to(PACKAGE):
        return trees()[path]
    gc.disable()  # as below: no node of a tree refers to one above it
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


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
        if type(node) not in LEAVES:
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
    found: list[tuple[str, ast.Call]] = []
    rest: list[tuple[str, ast.AST]] = [("", tree)]  # of a module's own code: no name
    while rest:
        inside, node = rest.pop()
        if isinstance(node, DEFINITIONS):
            inside = f"{inside}.{node.name}".lstrip(".")
        elif isinstance(node, ast.Call):
            found.append((inside, node))
        if type(node) not in LEAVES:
            rest += [(inside, child) for child in reversed(_children(node))]
    return found
