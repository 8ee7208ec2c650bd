"""Findings in cards and pages: each leads to its rounds, and the round where it was made leads back."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from scripted_runs import look

from agentnb import ToolCall, load_trace
from agentnb.agent.agent import Agent
from agentnb.detect import RunSoFar, detector
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.page import page_html
from agentnb.display.parts.finding_links import FIRST, MAX_AT_ONCE, MAX_LISTED, MAX_LIVE
from agentnb.models import ScriptedModel

LINK = re.compile(r'class="agentnb-to-(round|finding)"[^>]* href="#([^"]+)"')
LINE = re.compile(r'class="agentnb-finding[ "][^>]*>(.*?)</li>', re.DOTALL)


@detector(severity="notice")
def dug(run: RunSoFar) -> str | None:
    """Finds something in each round but the first."""
    return f"Dug {len(run.rounds)} times" if len(run.rounds) > 1 else None


def digging(times: int) -> Run:
    """A run of so many rounds, and one more for its answer."""
    script: list[Any] = [*[ToolCall("look", {"n": step}) for step in range(times)], "Nothing there."]
    return Agent(ScriptedModel(script), tools=[look], detect=dug, max_rounds=times + 2).run_sync("Dig", show=False)


def lines_of(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", line).strip() for line in LINE.findall(html)]


def live(run: Run) -> tuple[LiveCard, list[str]]:
    """The live card of a run after all of its events, and its list of findings after each."""
    card, seen = LiveCard(), []
    for event in run.events:
        card.take(event)
        seen.append(card.whole()["slots"]["findings"])
    return card, seen


def test_each_link_of_a_card_and_of_a_page_leads_to_something_in_it_and_each_finding_has_its_way_back() -> None:
    run = load_trace("complex-fails")
    for html in (run_html(run), page_html(run)):
        links, ids = LINK.findall(html), re.findall(r' id="([^"]+)"', html)
        assert len(ids) == len({*ids})
        assert {unquote(where) for _, where in links} <= {*ids} and not {where for _, where in links} & {*ids}
        assert [kind for kind, _ in links].count("finding") == len(lines_of(html)) == 4
        assert lines_of(html)[0] == "▲ 1. The answer of round 4 is nearly that of round 3 · rounds 3 to 4"
        (mark,) = re.findall(r"↑ finding 1<", html.split('data-round="3"')[1].split('data-round="4"')[0])
        assert mark


def test_what_a_finding_says_is_not_counted_as_a_warning_too() -> None:
    html = run_html(load_trace("complex-fails"))
    assert "4 findings" in html and "warning" not in html


def test_a_run_in_which_nothing_was_found_has_no_list() -> None:
    html = run_html(load_trace("healthy"))
    assert "agentnb-finding" not in html and "0 finding" not in html


def test_of_many_findings_the_first_stand_there_and_a_page_shows_all() -> None:
    run = digging(MAX_AT_ONCE + 4)
    html = run_html(run)
    at_once, folded = html.split('data-fold="findings"')
    assert len(lines_of(at_once)) == FIRST and len(lines_of(folded)) == len(lines_of(html)) - FIRST
    assert f"{len(lines_of(html)) - FIRST} more findings" in folded and not re.match(" open", folded)
    assert re.search(r'<details[^>]*data-fold="findings"[^>]* open', page_html(run))
    opened = run_html(run, folds={"findings": True})
    assert re.search(r'<details[^>]*data-fold="findings"[^>]* open', opened)


def test_of_very_many_findings_the_rest_is_counted() -> None:
    lines = lines_of(run_html(digging(MAX_LISTED + 6)))
    assert len(lines) == MAX_LISTED + 1 and re.fullmatch(r"\d+ more", lines[-1])


def test_a_live_card_lists_a_finding_when_it_is_made_and_marks_its_round() -> None:
    run = digging(4)
    card, seen = live(run)
    told = [lines_of(html)[::-1] for html in seen]  # the newest stands first: it must not be out of sight
    assert told[0] == [] and all(now[: len(before)] == before for before, now in pairwise(told))
    assert len({*seen}) > 2  # not only at the end
    assert told[-1] == lines_of(run_html(run))
    rounds = {one["index"]: one["html"] for one in card.whole()["rounds"]}
    assert "marks" not in rounds[0] and "↑ finding 1" in rounds[1]["marks"]
    targets = {unquote(where) for _, where in LINK.findall("".join(pieces.get("marks", "") for pieces in rounds.values()))}
    assert targets and targets <= {*re.findall(r' id="([^"]+)"', seen[-1])}


def test_a_live_card_lists_the_newest_findings_whatever_their_number_and_marks_all_rounds() -> None:
    card, seen = live(digging(40))
    assert lines_of(seen[-1])[0].startswith("▲ 40. Dug 41 times") and lines_of(seen[-1])[-1] == f"{40 - MAX_LIVE} earlier"
    assert len(lines_of(seen[-1])) == MAX_LIVE + 1
    marks = [one["html"].get("marks", "") for one in card.whole()["rounds"]]
    assert [re.findall(r"finding (\d+)<", mark) for mark in marks] == [[], *[[str(number)] for number in range(1, 41)]]


def test_the_live_card_of_a_loaded_run_has_the_findings_of_the_saved_one() -> None:
    for name in ("complex-fails", "simple-fail", "didnt-close-out", "healthy"):
        run = load_trace(name)
        _, seen = live(run)
        assert lines_of(seen[-1])[::-1] == lines_of(run_html(run)), name
