"""A tool of an MCP server in a real JupyterLab: asked about before it acts, and its own question as a form."""

from __future__ import annotations

import re
import shlex
import sys
from typing import Any

import pytest
from mcp_runs import PROGRAM
from test_approval_in_lab import shots, went_on
from test_card_in_lab import card, chip, opened

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("forked")]
ADDED = f"%agent mcp add bench {shlex.join([sys.executable, PROGRAM])}"
BOOKS = "model = Slow([ToolCall('mcp_bench_book', {'train': 'ICE <b>5</b>'}), 'Booked.'])"


@pytest.mark.req("R2.24", "KX.5")
def test_tool_of_a_server_asks_before_it_acts_and_its_question_is_a_form(lab: Any) -> None:
    index = opened(lab, "servers", ADDED, BOOKS, "%agent mcp", "%%agent -m model -t mcp:bench --approve ask\nBook two seats.")
    lab.start(index)
    chip(lab, index, "Waiting for you")
    question = card(lab, index).locator(".agentnb-question")
    question.get_by_text("ICE <b>5</b>").wait_for()
    shots(lab, "server-tool", question)
    question.get_by_role("button", name="Always: all tools of the MCP server bench, in this run", exact=True).click()
    question.get_by_text("Which seats in ICE <b>5</b>?").wait_for()
    shots(lab, "server-form", question)
    question.get_by_label(re.compile("^seats")).fill("2")
    question.get_by_role("button", name="Answer").click()
    went_on(lab, index, "2 at the window", "You: always")
    shots(lab, "server-run", lab.cell(index))
    assert lab.value("run.questions[0].answer['reach']") == "'run'"
