"""The versions of agentnb, Python and packages used in an experiment."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

STATISTICS = "scipy"
"""The package used for statistical tests, installed by an extra."""
_NAME = re.compile(r"[\w.-]+")


def versions_here() -> dict[str, str]:
    """Return the versions of agentnb, Python, and agentnb's installed dependencies."""
    return {"agentnb": str(import_module("agentnb").__version__), "Python": platform.python_version(), **_packages()}


@cache
def _packages() -> dict[str, str]:
    """Return the versions of installed dependencies. Kept, because finding them takes longer than a small experiment."""
    versions: dict[str, str] = {}
    with suppress(PackageNotFoundError):  # an uninstalled checkout on the path
        needed = [_NAME.findall(requirement)[0] for requirement in requires("agentnb") or [] if "extra ==" not in requirement]
        for name in (*needed, STATISTICS):
            with suppress(PackageNotFoundError):
                versions[name] = version(name)
    return versions
