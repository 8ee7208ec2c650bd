"""Limits, compaction and recovery in a real JupyterLab: live and saved."""

from __future__ import annotations

from typing import Any

import pytest
from test_card_in_lab import card, chip, ended, shared
from waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.nightly("by day tests of the card show the limits without a browser")]
PRICED = """
from agentnb import History
from agentnb.models.capabilities import Capabilities
class Priced(Slow):
    def capabilities(self):
        return Capabilities(True, None, True)
def looks(count, *last):
    return [["A part.", *last, ToolCall("essay", {"length": 20 + n})] for n in range(count)]
short = History(compact_above=8, keep_recent=3)
"""
GO = "%%agent -m model -t essay doze {options}\nGo."
META = "[data-slot=meta]"
KEEP_WIDTHS = """card => {
    const seen = window.__widths = new Set();
    const look = () => {
        const parts = [...card.querySelectorAll('[data-slot=meta] .agentnb-part')];
        for (const one of parts) if (one.textContent.includes(' of ')) {
            seen.add(one.textContent.replace(/\\d/g, '0').trim() + ' ' + Math.round(one.getBoundingClientRect().width));
        }
        window.__looking = requestAnimationFrame(look);
    };
    look();
}"""


@pytest.mark.req("KX.2")
def test_cost_tokens_and_time_grow_without_layout_shifts(lab: Any) -> None:
    model = "model = Priced([*looks(1, Until('budget-seen')), *looks(5, 0.4), ToolCall('doze', {'seconds': 600})])"
    options = "--budget 0.5 --max-tokens 90000 --max-seconds 90 --max-tool-calls 8"
    index = shared(lab, PRICED, model, GO.format(options=options))
    lab.start(index)
    shown = card(lab, index)
    shown.locator(META, has_text="$0.0000 of $0.50").wait_for()
    shown.evaluate(KEEP_WIDTHS)
    lab.allow("budget-seen")
    chip(lab, index, "Running doze")
    shown.locator(META, has_text="$0.0861 of $0.50").wait_for()
    for words in ("15.5k of 90k tokens", "of 01:30", "round 7 of 50", "7 of 8 calls"):
        shown.locator(META, has_text=words).wait_for()
    widths: dict[str, set[str]] = {}
    for one in lab.page.evaluate("() => [...window.__widths]"):
        told, width = one.rsplit(" ", 1)
        widths.setdefault(told.replace("00.0k", "0.0k").strip("\u2007"), set()).add(width)
    assert all(len(found) == 1 for found in widths.values()), widths
    shown.get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    lab.wait_done(index)


def test_summary_is_shown_while_streaming_and_in_saved_form(lab: Any) -> None:
    words = "## Original task\\n- Count the **penguins** <img src=x onerror=alert(1)>"
    model = f"model = Priced([*looks(4), [Until('summing'), {words!r}], *looks(1), [Until('opened'), 'Gentoo.']])".replace(
        "\\\\n", "\\n"
    )
    index = shared(lab, PRICED, model, GO.format(options="--history short -g off"))
    lab.start(index)
    chip(lab, index, "Summarizing 4 messages")
    shown = card(lab, index)
    shown.get_by_text("summarizing, because the conversation had more than 8 messages …").wait_for()
    lab.allow("summing")
    line = shown.locator("[data-fold='summary:4:0'] > summary")
    line.click()
    shown.get_by_role("button", name="Show guidance").click()
    seen = shown.locator("[data-ask]").first
    seen.locator("summary").first.click()
    seen.locator("[data-fill] *").first.wait_for()  # answered in order: the kernel has received the other fold too
    wait_until(
        lambda: "4 messages summarized, because the conversation had more than 8 messages · $0.0123" in line.inner_text()
    )
    lab.allow("opened")
    ended(lab, index, "Done")
    lab.wait_done(index)
    kept = lab.output(index).locator("[data-fold='summary:4:0']")
    wait_until(lambda: kept.get_attribute("open") is not None)  # as the reader left it
    wait_until(lambda: kept.locator("strong", has_text="penguins").is_visible() and kept.locator("img").count() == 0)
    assert lab.complaints() == []


@pytest.mark.req("KX.2")
def test_limited_run_shows_a_final_answer_and_next_command(lab: Any) -> None:
    model = "model = Priced([*looks(3), 'As **far** as I have seen.', 'And on.'])"
    index = shared(lab, PRICED, model, GO.format(options="--budget 0.036 --on-limit final_answer"))
    lab.run(index)
    ended(lab, index, "Limit reached: $0.036")
    shown = lab.output(index)
    wait_until(lambda: shown.locator(".agentnb-answer strong", has_text="far").is_visible())
    command = shown.locator(".agentnb-next-step code")
    typed = "%%agent --continue -t essay doze -m model --budget 0.1"
    wait_until(lambda: command.inner_text() == typed)
    later = lab.write_last(f"{typed}\nGo on.")
    lab.run(later)
    assert lab.value("run.status, run.text, run.continued_from is not None") == "('completed', 'And on.', True)"
    assert lab.errors() == []


DIE = """
from pathlib import Path
path = Path(".agentnb/runs") / f"{run.id}.jsonl"
lines = path.read_bytes().splitlines(keepends=True)
last = max(number for number, line in enumerate(lines) if line.startswith(b'{"kind":"tool_started"'))
path.write_bytes(b"".join(lines[: last + 1]))
print(run.id[-8:])
"""


@pytest.mark.req("KX.11")
def test_dead_run_is_recovered_in_a_live_card(lab: Any) -> None:
    cells = [PRICED + "model = Priced([*looks(2), 'Gentoo.'])", GO.format(options="-g off"), DIE, "%agent history 1"]
    index = shared(lab, *cells, "model = Priced([[600.0, 'Gentoo.']])", "%agent recover -m model")
    opened_run = lab.output(index - 2)
    opened_run.locator("summary").first.click()
    opened_run.get_by_text("%agent recover ", exact=False).last.wait_for()
    lab.start(index)
    chip(lab, index, "Thinking")
    shown = card(lab, index)
    shown.locator("[data-round='1'] [data-piece=recovered]", has_text="the kernel died here").wait_for()
    wait_until(lambda: "interrupted: the kernel died" in str(shown.locator("[data-call]").last.text_content()))
    wait_until(lambda: shown.locator(META).inner_text().startswith("round 3 of 50"))
    shown.get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    lab.wait_done(index)
    wait_until(lambda: "resumed: once" in lab.output(index).text_content())
    assert lab.value("run.status, run.times_recovered") == "('cancelled', 1)"
