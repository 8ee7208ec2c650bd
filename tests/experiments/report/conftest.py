"""Fixtures for tests of the text of reports."""

from __future__ import annotations

import pytest

from agentnb.experiments.report import report_figures


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the figures of reports, without painting them: that takes two thirds of the time of a report."""
    monkeypatch.setattr(report_figures, "png_of", lambda figure: b"\x89PNG")
