"""Commands as a shell runs them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from shell_calls import Call, Done

from agentnb.cli import main

if TYPE_CHECKING:
    from terminal import Program


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command in this process, in the folder of the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # modules of a folder are found in that folder only

    def call(*argv: str) -> Done:
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """Start a program at a terminal."""
    from terminal import programs  # not on Windows

    with programs() as start:
        yield start
