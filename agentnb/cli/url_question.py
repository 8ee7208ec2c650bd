"""The question at the terminal whether a model named by a file or log may be called at its address."""

from __future__ import annotations

import sys
from argparse import Namespace

from agentnb.cli.inputs import STDIN
from agentnb.cli.streams import tell
from agentnb.cli.terminal_questions import is_at_terminal
from agentnb.models.allowed_urls import question
from agentnb.models.destination import Destination


def can_ask(given: Namespace) -> bool:
    """Return whether the person can be asked by the command with these options."""
    return is_at_terminal() and not getattr(given, "no_input", False) and getattr(given, "prompt", None) != STDIN


def ask_about_url(destination: Destination) -> bool:
    """Ask the person, and return whether they allow it."""
    tell(question(destination), end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
