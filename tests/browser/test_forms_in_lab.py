"""Forms and addresses in a real JupyterLab: filled, refused at the field, opened, declined, cancelled."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from test_approval_in_lab import AGAIN, IN_SIGHT
from test_card_in_lab import card, chip, ended, nothing_is_left, shared
from waiting import wait_until

pytestmark = pytest.mark.browser
BOOKING = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 40},
        "mail": {"type": "string", "format": "email", "description": "Where the <b>confirmation</b> goes"},
        "day": {"type": "string", "format": "date", "default": "2026-07-28"},
        "guests": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        "room": {"type": "string", "oneOf": [{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]},
        "meals": {"type": "array", "items": {"type": "string", "enum": ["breakfast", "dinner"]}, "maxItems": 1},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "note": {"type": "string", "description": "For the kitchen", "maxLength": 200},
        "sure": {"type": "boolean", "default": False},
    },
    "required": ["name", "mail", "room"],
}
ASKS = f"""
import json
from agentnb import tool
from agentnb.tools.tool import ToolContext
@tool(blocking=True)
async def book(context: ToolContext) -> str:
    "Book a room."
    return json.dumps(await context.ask("Whom is the room for?", {BOOKING!r}))
model = Slow([ToolCall("book", {{}}), "Booked."])
"""
GO = "%%agent -m model -t book\nGo."


def asked(lab: Any, setup: str = ASKS, go: str = GO) -> tuple[int, Any]:
    """Run the cell until its card asks; return its index and the question."""
    index = shared(lab, setup, go)
    lab.start(index)
    chip(lab, index, "Waiting for you")
    question = card(lab, index).locator(".agentnb-question")
    question.wait_for()
    return index, question


def field(question: Any, name: str) -> Any:
    return question.get_by_label(re.compile(rf"^{name}"))


def error(question: Any, name: str, text: str) -> None:
    """Wait until the form shows this error beside the field."""
    row = question.locator(".agentnb-form-field", has=question.page.get_by_label(re.compile(rf"^{name}")))
    row.locator(".agentnb-field-error", has_text=text).wait_for()


@pytest.mark.req("KX.5")
def test_form_can_be_filled_and_shows_errors_at_fields(lab: Any) -> None:
    index, question = asked(lab)
    question.get_by_text("book asks you").wait_for()
    question.get_by_text("Where the <b>confirmation</b> goes").wait_for()
    lab.shots("form-empty", question)
    send = question.get_by_role("button", name="Answer")
    send.click()
    error(question, "Your name", "A value is required")
    error(question, "room", "A value is required")
    field(question, "Your name").fill("A")
    field(question, "mail").fill("ada")
    field(question, "day").fill("28.7.2026")
    field(question, "guests").fill("9")
    field(question, "room").select_option(label="Double")
    field(question, "code").fill("abc")
    for meal in ("breakfast", "dinner"):
        question.get_by_role("checkbox", name=meal).check()
    send.click()
    error(question, "Your name", '"A" is shorter than 2 characters')
    error(question, "mail", '"ada" is not an e-mail address')
    error(question, "day", "is not a date such as 2026-07-28")
    error(question, "guests", "9 is greater than the maximum of 8")
    error(question, "meals", "has more than 1 item")
    error(question, "code", "does not match")
    lab.shots("form-refused", question)
    question.get_by_role("checkbox", name="dinner").uncheck()
    note = question.get_by_role("checkbox", name="Answer with empty text instead of leaving this out")
    note.check()
    question.evaluate(AGAIN)
    wait_until(lambda: field(question, "mail").input_value() == "ada" and note.is_checked())
    meals = [question.get_by_role("checkbox", name=meal) for meal in ("breakfast", "dinner")]
    wait_until(lambda: [box.is_checked() for box in meals] == [True, False])
    field(question, "Your name").fill("Ada")
    field(question, "mail").fill("ada@example.org")
    field(question, "day").fill("2026-07-29")
    field(question, "guests").fill("3")
    field(question, "code").fill("ABC")
    field(question, "sure").select_option(label="yes")
    send.click()
    ended(lab, index, "Done")
    lab.wait_done(index)
    answer = json.loads(lab.value("run.rounds[0].results[0].text")[1:-1])
    assert answer == {
        "name": "Ada",
        "mail": "ada@example.org",
        "day": "2026-07-29",
        "guests": 3,
        "room": "d",
        "meals": ["breakfast"],
        "code": "ABC",
        "note": "",
        "sure": True,
    }
    nothing_is_left(lab)


@pytest.mark.nightly("by day a form is filled in")
def test_long_form_opens_at_its_first_field(lab: Any) -> None:
    index, question = asked(lab)
    for width in (700, 1400):
        lab.width(width)
        wait_until(lambda: question.get_by_text("Whom is the room for?").evaluate(IN_SIGHT))
        wait_until(lambda: field(question, "Your name").evaluate(IN_SIGHT))
    question.get_by_role("button", name="Decline").click()
    ended(lab, index, "Done")
    nothing_is_left(lab)


@pytest.mark.nightly("by day a form is filled in")
@pytest.mark.req("KX.5")
def test_form_can_be_declined_or_cancelled_with_a_button(lab: Any) -> None:
    for label, outcome, told in (
        ("Decline", "declined", "You declined to answer"),
        ("Cancel", "cancelled", "You closed it without deciding"),
    ):
        index, question = asked(lab)
        question.get_by_role("button", name=label).click()
        ended(lab, index, "Done")
        lab.wait_done(index)
        wait_until(lambda told=told, index=index: told in lab.cell(index).locator(".agentnb-run").text_content())
        assert lab.value("run.questions[0].outcome") == repr(outcome)
        nothing_is_left(lab)


@pytest.mark.nightly("by day tests of the question read the address")
@pytest.mark.req("KX.5")
def test_address_is_shown_in_full_and_opens_only_on_click(lab: Any) -> None:
    url = f"{lab.url}/api/status?token=t&why=agentnb"
    connects = f"""
from agentnb import tool
from agentnb.tools.tool import ToolContext
@tool(blocking=True)
async def connect(context: ToolContext) -> str:
    "Connect an account."
    return f"It is {{await context.ask_url('Connect your account', {url!r})}}"
model = Slow([ToolCall("connect", {{}}), "Connected."])
"""
    reached: list[str] = []
    lab.page.context.on("request", lambda request: reached.append(request.url) if "why=agentnb" in request.url else None)
    index, question = asked(lab, connects, GO.replace("book", "connect"))
    question.get_by_text("connect asks you").wait_for()
    host = url.split("/")[2]
    question.locator(".agentnb-question-host", has_text=host).wait_for()
    question.locator(".agentnb-question-url").get_by_text(url, exact=True).wait_for()
    lab.shots("address", question)
    pages = len(lab.page.context.pages)
    assert reached == []
    wait_until(lambda: question.locator("a").count() == 1)
    with lab.page.context.expect_page() as opening:
        question.get_by_role("link", name=f"Open {host}").click()
    opened = opening.value
    opened.wait_for_load_state()
    opened.wait_for_function("() => window.opener === null && document.referrer === ''")
    opened.close()
    assert reached == [url] and len(lab.page.context.pages) == pages
    question.get_by_role("button", name="Done").click()
    ended(lab, index, "Done")
    lab.wait_done(index)
    assert lab.value("run.rounds[0].results[0].text") == "'It is None'"
    nothing_is_left(lab)
