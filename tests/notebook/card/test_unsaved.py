"""The note of a card about an unsaved run, and its button."""

from __future__ import annotations

from pathlib import Path

from agentnb import Agent
from agentnb.models import ScriptedModel
from agentnb.notebook.card.actions import DRAWN
from agentnb.notebook.card.unsaved import unsaved_html


def test_unsaved_output_explains_how_to_restore_it() -> None:
    for stored in (True, False):
        html = unsaved_html("20261122-101010-abcdef01234", stored=stored)
        assert "This output is lost when the kernel ends" in html and 'data-do="page"' in html
        assert ("%agent load def01234" in html) is stored


def test_save_button_writes_a_page_and_reports_where(tmp_path: Path) -> None:
    live = Agent(ScriptedModel(["The <answer>."])).start("Go.")
    live.result(30)
    note = DRAWN["page"](live, {})
    page = tmp_path / f"{live.run_id}.html"
    assert page.name in note and "The &lt;answer&gt;." in page.read_text("utf-8")
