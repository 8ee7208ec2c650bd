"""A tool of an MCP server in a real JupyterLab: approval, its own form, a login."""

from __future__ import annotations

import re
import shlex
import sys
from typing import Any

import httpx2
import pytest
from mcp_runs import PROGRAM
from protected_servers import ProtectedServer
from test_approval_in_lab import went_on
from test_card_in_lab import card, chip, ended, opened, shared
from waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("forked")]
ADDED = f"%agent mcp add bench {shlex.join([sys.executable, PROGRAM])}"
BOOKS = "model = Slow([ToolCall('mcp_bench_book', {'train': 'ICE <b>5</b>'}), 'Booked.'])"


@pytest.mark.req("R2.24", "KX.5")
def test_server_tool_asks_for_approval_and_shows_its_form(lab: Any) -> None:
    index = opened(lab, "servers", ADDED, BOOKS, "%agent mcp", "%%agent -m model -t mcp:bench --approve ask\nBook two seats.")
    lab.start(index)
    chip(lab, index, "Waiting for you")
    question = card(lab, index).locator(".agentnb-question")
    question.get_by_text("ICE <b>5</b>").wait_for()
    lab.shots("server-tool", question)
    question.get_by_role("button", name="Also allow later calls").click()
    question.get_by_label("Later calls to allow").select_option("mcp:bench")
    question.get_by_role("button", name="Approve and allow").click()
    question.get_by_text("Which seats in ICE <b>5</b>?").wait_for()
    lab.shots("server-form", question)
    question.get_by_label(re.compile("^seats")).fill("2")
    question.get_by_role("button", name="Answer").click()
    went_on(lab, index, "2 at the window", "You approved, and all later calls to the MCP server bench")
    lab.shots("server-run", lab.cell(index))
    assert lab.value("run.questions[0].answer['reach']") == "'run'"


@pytest.mark.nightly("by day a server asks in JupyterLab, and a cell logs in without a browser")
def test_login_shows_a_link_and_a_masked_field_or_question(lab: Any) -> None:
    no_keyring = "import os\nos.environ['PYTHON_KEYRING_BACKEND'] = 'keyring.backends.null.Keyring'"
    with ProtectedServer() as docs:
        model = "model = Slow([ToolCall('mcp_docs_echo', {'text': 'hi'}), 'Done.'])"
        cells = f"{no_keyring}\n{model}", f"%agent mcp add docs {docs.address}", "%agent mcp login docs"
        index = shared(lab, *cells)

        def asked() -> tuple[Any, Any]:
            lab.start(index)
            link, field = lab.output(index).get_by_role("link"), lab.cell(index).locator("input.jp-Stdin-input")
            link.wait_for()
            field.wait_for()
            wait_until(lambda: link.inner_text() == link.get_attribute("href"))
            wait_until(lambda: field.get_attribute("type") == "password")
            return link, field

        def went_on_after(link: Any, field: Any) -> None:
            field.press("Enter")
            lab.wait_done(index)
            lab.output(index).get_by_text("You are logged in to docs, which has 1 tool").wait_for()
            wait_until(lambda: link.count() == 0)
            assert not [secret for secret in [*docs.authorization.given, "state="] if secret in str(lab.outputs(index))]

        link, field = asked()
        lab.shots("login-asked", lab.cell(index))
        with lab.page.context.expect_page() as visited:
            link.click()
        visited.value.get_by_text("agentnb has received your answer").wait_for()
        wait_until(lambda: visited.value.evaluate("window.opener") is None)
        visited.value.close()
        went_on_after(link, field)
        lab.shots("login-done", lab.cell(index))
        link, field = asked()
        field.fill(httpx2.get(link.get_attribute("href")).headers["location"])
        lab.shots("login-pasted", lab.cell(index))
        went_on_after(link, field)
        docs.authorization.forget_all()
        last = lab.write_last("%%agent -m model -t mcp:docs --approve auto\nGo.")
        lab.start(last)
        chip(lab, index + 1, "Waiting for you")
        question = card(lab, index + 1).locator(".agentnb-question")
        lab.shots("login-in-a-run", question)
        with lab.page.context.expect_page() as visited:
            question.get_by_role("link").click()
        visited.value.get_by_text("agentnb has received your answer").wait_for()
        visited.value.close()
        ended(lab, index + 1, "Done")
        lab.wait_done(index + 1)
        assert lab.value("run.rounds[0].results[0].text") == "'echo hi'"
        lab.shots("login-in-a-run-done", lab.cell(index + 1))
    assert lab.complaints() == []
