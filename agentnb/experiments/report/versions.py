"""Versions of what an experiment runs with."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("anthropic", "openai", "mcp", "genai-prices", "numpy", "pandas", "scipy")
"""Packages that what a run does or says depends on."""


def versions_here() -> dict[str, str]:
    """Return the versions of agentnb, Python, and the installed ones of `PACKAGES`."""
    found = {"agentnb": str(import_module("agentnb").__version__), "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
