"""Every required dependency is used."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution as installed
from pathlib import Path

from packaging.requirements import Requirement
from parsed import trees, walk

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def distribution(requirement: str) -> str:
    """The name in a requirement such as ``ruamel.yaml>=0.19``, as the index writes it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


@cache
def named() -> tuple[set[str], set[str]]:
    """Return the modules that the package imports, and the distributions whose version it asks for."""
    imported: set[str] = set()
    versions: set[str] = set()
    for tree in trees().values():
        for node in walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported.update(_imported(node))
            elif isinstance(node, ast.Call) and node.args and _called(node.func).endswith("version"):
                versions |= {distribution(str(one.value)) for one in node.args if isinstance(one, ast.Constant)}
    return imported, versions


def used(names: set[str]) -> set[str]:
    """Return those of the distributions that the package imports, or asks for their version."""
    imported, versions = named()
    return {name for name in names if name in versions or imported & modules_of(name)}


def modules_of(name: str) -> set[str]:
    """The modules and packages that an installed distribution has."""
    record = installed(name).read_text("RECORD") or ""
    return {re.split(r"[/,.]", line, maxsplit=1)[0] for line in record.splitlines()}


def _called(function: ast.expr) -> str:
    """The last name of what is called: ``version`` of ``metadata.version``."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif node.module and not node.level:
        yield node.module.partition(".")[0]


def test_every_dependency_of_the_core_is_used() -> None:
    """Packages without a use are in an extra, until the code comes that needs them."""
    needed = {
        distribution(one) for one in PROJECT["dependencies"] if (mark := Requirement(one).marker) is None or mark.evaluate()
    }
    assert len(needed) > 10
    assert needed - used(needed) == set()
    assert used({"pytest"}) == set(), "it is installed, but the package does not use it"


def test_extra_named_all_includes_every_extra() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = everything.partition("[")[2].rstrip("]").split(",")
    assert sorted(named) == sorted(set(PROJECT["optional-dependencies"]) - {"all"})
