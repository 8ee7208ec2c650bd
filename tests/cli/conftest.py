"""Commands as a shell runs them."""

from __future__ import annotations

import sys

import pytest
from shell_calls import Call, Done

from agentnb.cli import main


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command in this process, in the folder of the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # modules of a folder are found in that folder only

    def call(*argv: str) -> Done:
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return Done(code, *capsys.readouterr())

    return call
