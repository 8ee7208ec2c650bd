"""Findings in cards and pages: links to their rounds and back."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import unquote

import pytest
from asserted_sentences import Snapshot
from run_builder import Fact, RunBuilder, called

from agentnb import load_trace
from agentnb.core.log.events import RunFinished
from agentnb.core.log.work_events import FindingMade
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.parts.finding_links import FIRST, MAX_AGAIN, MAX_AT_ONCE, MAX_LISTED, MAX_LIVE

LINK = re.compile(r'class="agentnb-to-(round|finding)"[^>]* href="#([^"]+)"')
LINE = re.compile(r'class="agentnb-finding[ "][^>]*>(.*?)</li>', re.DOTALL)


def digging(*found: tuple[int, int, str]) -> Run:
    """Build a run with these findings: first round, last round (which reports it), and rule."""
    built = RunBuilder()
    for index in range(max(last for _, last, _ in found) + 1):
        facts: list[Fact] = []
        for first, last, rule in found:
            if last == index:
                finding = {"family": "digging", "rule": rule, "sentence": f"Dug {index + 1} times."}
                facts.append((FindingMade, {**finding, "first": first, "last": last}))
        built.round(called("look", n=index), facts=facts)
    return built.add(RunFinished, status="completed", stop_reason="natural", seconds=1.0).run


def of_kinds(count: int) -> Run:
    """Build a run with this many findings, each of another rule, from the second round on."""
    return digging(*[(index, index, f"rule_{index}") for index in range(1, count + 1)])


def lines_of(html: str) -> list[str]:
    return [re.sub("<[^>]+>", "", line).strip() for line in LINE.findall(html)]


def live(run: Run) -> tuple[LiveCard, list[str]]:
    """Return the live card of a run after all events, and its list of findings after each."""
    card, seen = LiveCard(), []
    for event in run.events:
        card.take(event)
        seen.append(card.whole()["slots"]["findings"])
    return card, seen


def test_links_resolve_and_each_finding_has_a_backlink() -> None:
    run = load_trace("complex-fails")
    for html in (run_html(run), page_html(run)):
        links, ids = LINK.findall(html), re.findall(r' id="([^"]+)"', html)
        assert len(ids) == len({*ids})
        assert {unquote(where) for _, where in links} <= {*ids} and not {where for _, where in links} & {*ids}
        assert [kind for kind, _ in links].count("finding") == 4
        (line,) = lines_of(html)
        assert line == "▲ 1. The answer of round 4 nearly repeats that of round 3 · rounds 3 to 4, again in rounds 4 to 7"
        (mark,) = re.findall(r"↑ finding 1<", html.split('data-round="3"')[1].split('data-round="4"')[0])
        assert mark


def test_findings_do_not_count_as_warnings() -> None:
    html = run_html(load_trace("complex-fails"))
    assert "4 findings" in html and "warning" not in html


def test_run_without_findings_has_no_list() -> None:
    html = run_html(load_trace("healthy"))
    assert "agentnb-finding" not in html and "0 finding" not in html


def test_findings_of_one_rule_share_a_line_with_their_rounds(subtests: pytest.Subtests) -> None:
    for name, (found, line) in {
        "one": ([(1, 3, "a")], "Dug 4 times · rounds 2 to 4"),
        "a later one": ([(1, 1, "a"), (4, 4, "a")], "Dug 2 times · round 2, again in round 5"),
        "those that touch": ([(1, 1, "a"), (4, 4, "a"), (6, 8, "a")], "Dug 2 times · round 2, again in rounds 5, 7 to 9"),
        "a row of them": ([(1, 1, "a"), *[(n, n, "a") for n in (4, 5, 6)]], "Dug 2 times · round 2, again in rounds 5 to 7"),
        "those that overlap": ([(0, 2, "a"), (1, 3, "a"), (2, 4, "a")], "Dug 3 times · rounds 1 to 3, again in rounds 2 to 5"),
        "the same round": ([(1, 1, "a"), (1, 1, "a")], "Dug 2 times · round 2"),
        "very many": (
            [(n, n, "a") for n in range(0, 2 * MAX_AGAIN + 5, 2)],
            f"Dug 1 times · round 1, again in rounds {', '.join(str(2 * n + 3) for n in range(MAX_AGAIN))} and 2 more",
        ),
    }.items():
        with subtests.test(name):
            run = digging(*found)
            html = run_html(run)
            assert lines_of(html) == [f"▲ 1. {line}"] == lines_of(live(run)[1][-1])
            title = "1 finding" if len(found) == 1 else f"{len(found)} findings of one kind"
            assert f">{title}<" in html
            lasts = {last for _, last, _ in found}
            assert [html.count(f'data-round="{last}"') for last in lasts] == [1] * len(lasts)
            assert html.count("↑ finding 1<") == len(lasts)


def test_link_title_is_the_text_of_its_finding() -> None:
    html = run_html(digging((1, 1, "a"), (4, 4, "a"), (6, 8, "a")))
    listed = html.split('class="agentnb-findings"')[1].split("</ol>")[0]
    titles = re.findall(r'title="(Dug \d+ times)"[^>]*>(\d+)<', listed)
    assert titles == [("Dug 2 times", "2"), ("Dug 5 times", "5"), ("Dug 9 times", "7"), ("Dug 9 times", "9")]
    assert re.findall(r'title="(Dug \d+ times)"[^>]*>↑ finding 1<', html) == ["Dug 2 times", "Dug 5 times", "Dug 9 times"]


def test_findings_of_different_rules_have_separate_lines(snapshot: Snapshot) -> None:
    html = run_html(digging((1, 1, "a"), (2, 2, "b"), (4, 4, "a")))
    assert lines_of(html) == snapshot
    assert ">3 findings of 2 kinds<" in html


def test_card_shows_the_first_findings_and_the_page_all() -> None:
    run = of_kinds(MAX_AT_ONCE + 4)
    html = run_html(run)
    at_once, folded = html.split('data-fold="findings"')
    assert len(lines_of(at_once)) == FIRST and len(lines_of(folded)) == len(lines_of(html)) - FIRST
    assert f"{len(lines_of(html)) - FIRST} more findings" in folded and not re.match(" open", folded)
    assert re.search(r'<details[^>]*data-fold="findings"[^>]* open', page_html(run))
    opened = run_html(run, folds={"findings": True})
    assert re.search(r'<details[^>]*data-fold="findings"[^>]* open', opened)


def test_surplus_findings_are_counted() -> None:
    lines = lines_of(run_html(of_kinds(MAX_LISTED + 6)))
    assert len(lines) == MAX_LISTED + 1 and lines[-1] == "6 more"


def test_live_card_lists_new_findings_and_marks_their_rounds() -> None:
    run = of_kinds(4)
    card, seen = live(run)
    lines = [lines_of(html)[::-1] for html in seen]  # newest first, so that it stays visible
    assert lines[0] == [] and all(now[: len(before)] == before for before, now in pairwise(lines))
    assert len({*seen}) > 2  # not only at the end
    assert lines[-1] == lines_of(run_html(run))
    rounds = {round_["index"]: round_["html"] for round_ in card.whole()["rounds"]}
    assert "marks" not in rounds[0] and "↑ finding 1" in rounds[1]["marks"]
    targets = {unquote(where) for _, where in LINK.findall("".join(pieces.get("marks", "") for pieces in rounds.values()))}
    assert targets and targets <= {*re.findall(r' id="([^"]+)"', seen[-1])}


def test_repeated_finding_keeps_its_number_and_moves_to_the_top(snapshot: Snapshot) -> None:
    _, seen = live(digging((1, 1, "a"), (2, 2, "b"), (4, 4, "a")))
    assert lines_of(seen[-1]) == snapshot
    assert ["▲ 2. Dug 3 times · round 3", "▲ 1. Dug 2 times · round 2"] in [lines_of(html) for html in seen]


def test_live_card_lists_the_newest_findings_and_marks_all_rounds() -> None:
    card, seen = live(of_kinds(40))
    assert lines_of(seen[-1])[0].startswith("▲ 40. Dug 41 times") and lines_of(seen[-1])[-1] == f"{40 - MAX_LIVE} earlier"
    assert len(lines_of(seen[-1])) == MAX_LIVE + 1
    marks = [round_["html"].get("marks", "") for round_ in card.whole()["rounds"]]
    assert [re.findall(r"finding (\d+)<", mark) for mark in marks] == [[], *[[str(number)] for number in range(1, 41)]]


def test_live_card_of_a_loaded_run_matches_the_saved_findings() -> None:
    for name in ("complex-fails", "simple-fail", "didnt-close-out", "healthy"):
        run = load_trace(name)
        _, seen = live(run)
        assert lines_of(seen[-1])[::-1] == lines_of(run_html(run)), name
