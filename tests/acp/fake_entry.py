"""The entry of the fake agent in the table of known agents."""

from __future__ import annotations

import sys
from pathlib import Path

from agentnb.acp.known_agents import KnownAgent

PROGRAM = Path(__file__).with_name("fake_agent.py")
IMPORTED = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); from fake_agent import Agent; Agent().serve()"
"""Runs the program as a module, which Python compiles once. (A sandbox shows the files that the command names.)"""
FAKE = KnownAgent(
    command=(sys.executable, "-c", IMPORTED, str(PROGRAM)),
    asks_in="default",
    usage="turn",
    errors="error",
    install="nothing to install",
    terminals=True,
    asks_about=("read", "write", "execute", "network"),
)
