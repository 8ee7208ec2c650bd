"""Runs that are killed, and those that are made up, are a matter of the traces, and of what goes on with them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "traces"))
