"""Path of the package, for tests of tracebacks: the folders above it can have any name, also its own."""

from __future__ import annotations

from pathlib import Path

import agentnb

PACKAGE = Path(agentnb.__file__).parent
OWN_FRAMES = f"{PACKAGE.parent.name}/{PACKAGE.name}/"
"""Part of the path of each of its files, also where a traceback begins with ``~``; no file of an installed library has it."""
