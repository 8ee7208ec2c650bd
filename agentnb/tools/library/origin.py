"""Where a function comes from: an installed library, or code of the person's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

INSTALLED = frozenset({"site-packages", "dist-packages"})


def is_of_library(code: Any) -> bool:
    """Return whether this function belongs to Python or an installed package other than agentnb.

    So does a function that is not written in Python.
    """
    module = getattr(code, "__globals__", {}).get("__name__")
    if not isinstance(module, str):
        return True
    if module == "__main__":  # whose file may be that of a launcher
        return False
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return package != "agentnb" and isinstance(file, str) and not INSTALLED.isdisjoint(Path(file).parts)
