"""The page's side of a live card without notebook and kernel: frames in, messages out, on a clock of the test."""

from __future__ import annotations

from typing import Any

import pytest
from run_builder import RunBuilder, begun

from agentnb.core.log.events import TextDelta
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.lost_kernel import inline_styles
from agentnb.display.css import style_sheet
from agentnb.notebook.card.widget import _SOURCES
from agentnb.notebook.widget_tools import script

pytestmark = pytest.mark.browser
OPEN = """async ([source, frame, ago]) => {
    const card = (await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})))).default;
    const hears = [];
    window.sent = [];
    const model = {get: () => "k", on: (name, hear) => hears.push(hear), off: () => {}, send: message => sent.push(message)};
    window.show = (frame, ago) => hears[0]({...frame, now: Date.now(), changed_at: Date.now() - 1000 * ago});
    card.initialize({model});
    card.render({model, el: document.body});
    show(frame, ago);
}"""


@pytest.fixture
def page(browser: Any) -> Any:
    """An empty page."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def show(page: Any, model: str, ago: float) -> LiveCard:
    """Show a run of this model whose last change was so many seconds ago, and return its card."""
    card = LiveCard()
    for event in RunBuilder(model=model).extend(*begun(0)).events:
        card.take(event)
    page.set_content(f"<style>{style_sheet()}</style><body></body>")
    page.evaluate(OPEN, [script(*_SOURCES, INLINE=inline_styles()), card.whole(), ago])
    return card


def test_time_without_output_from_external_agent_is_shown(page: Any) -> None:
    card = show(page, "acp:fake", 45)
    chip = page.locator("[data-slot=chip]")
    chip.get_by_text(": no output for 45 s; it may be retrying").wait_for()
    chip.get_by_text(": no output for 47 s; it may be retrying").wait_for()
    card.take(TextDelta("Hm"))
    page.evaluate("frame => show(frame, 20)", card.frame())
    chip.get_by_text("no output for").wait_for(state="detached")


def test_only_external_agents_can_be_messaged_immediately(page: Any) -> None:
    show(page, "acp:fake", 0)
    page.get_by_label("Say something to the agent").fill("Hurry")
    page.get_by_role("button", name="Now", exact=True).click()
    sent = [message for message in page.evaluate("() => sent") if message["do"] == "say"]
    assert [(message["text"], message["now"]) for message in sent] == [("Hurry", True)]
    show(page, "openai:gpt", 0)
    page.get_by_label("Say something to the agent").fill("Hurry")
    page.get_by_label("Say something to the agent").press("Enter")
    sent = [message for message in page.evaluate("() => sent") if message["do"] == "say"]
    assert [message["now"] for message in sent] == [False]
    page.get_by_role("button", name="Now", exact=True).wait_for(state="detached")
