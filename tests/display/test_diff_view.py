"""Two runs side by side: differences are marked, equal parts folded, links lead to rounds, and text stays text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import Run, ToolCall, diff
from agentnb.core.log.events import Origin
from agentnb.display.lists.diff_view import diff_html, diff_text
from agentnb.interchange.conversion.run_writer import RunWriter

HOSTILE = "<img src=x onerror=alert(1)>\x1b"


def run_of(*rounds: tuple[str, str, str], name: str = "a.json") -> Run:
    """Return a run with these rounds: text, search (empty: no call) and result."""
    writer = RunWriter(Origin("by_hand", name), model="m")
    writer.say("Go")
    for text, wanted, result in rounds:
        writer.reply(text, [ToolCall("look", {"query": wanted, "limit": 3})] if wanted else [])
        if wanted:
            writer.result("", result)
    return writer.finish()


SAME = [(f"Look {n}", f"thing {n}", "a hat") for n in range(3)]
A = run_of(*SAME, ("Here?", "fox", "none"), ("", "same", "yes, it is 12 m"), ("Done", "", ""))
B = run_of(*SAME, ("Here?", "owl", "none"), ("", "same", "yes, it is 15 m"), ("", "more", ""), ("Done", "", ""), name="b.json")


def test_identical_rounds_are_folded_and_others_shown_side_by_side() -> None:
    html = diff_html(diff(A, B))
    assert html.count("agentnb-diff-alike") == 2 and "rounds 1 to 3 are alike" in html
    assert "round 6 of a and 7 of b is alike" in html
    assert html.count('"agentnb-diff-pair"') == 3 and "a: no such round" in html


def test_diff_marks_differences_between_calls() -> None:
    values = re.findall(r"agentnb-diff-value[^>]*>([^<]*)<", diff_html(diff(A, B)))
    assert values[:2] == ["fox", "owl"]
    assert values[2].endswith("12 m") and values[3].endswith("15 m") and len(values) == 4


def test_call_repeated_in_only_one_run_is_marked() -> None:
    def made(times: int) -> Run:
        writer = RunWriter(Origin("by_hand"), model="m")
        writer.say("Go")
        writer.reply("I look.", [ToolCall("look", {"at": 1}) for _ in range(times)])
        for _ in range(times):
            writer.result("", "seen")
        return writer.finish()

    assert diff_html(diff(made(2), made(1))).count("agentnb-diff-other") == 1


def test_differing_figures_are_a_table_and_equal_ones_a_line() -> None:
    html = diff_html(diff(A, B))
    table, alike = html.partition("Alike: ")[::2]
    assert "rounds" in table and "+1" in table and "tool errors 0" in alike and "tool errors" not in table


def test_summary_sentence_links_to_both_rounds() -> None:
    html = diff_html(diff(A, B))
    ids = re.findall(r'id="([^"]+)"', html)
    links = re.findall(r'class="agentnb-to-round"[^>]* href="#([^"]+)"', html)
    assert len(ids) == len({*ids}) and len(links) == 2 and {*links} <= {*ids}


def test_diff_text_matches_the_html() -> None:
    text = diff_text(diff(A, B))
    assert "They diverge at round 4 of a and round 4 of b" in text and "rounds 1 to 3 are alike" in text
    assert "fox" in text and "owl" in text and "only in b" in text


def test_text_of_a_run_never_becomes_markup() -> None:
    bad = run_of((HOSTILE, HOSTILE, HOSTILE), name=HOSTILE)
    for one, other in ((bad, A), (A, bad), (bad, run_of((HOSTILE, HOSTILE + "!", "x")))):
        assert "<img" not in diff_html(diff(one, other)) and "\x1b" not in diff_text(diff(one, other))


ROUNDS = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["", "p", "q"]), st.sampled_from("rs")), max_size=6)


@given(ROUNDS, ROUNDS)
@examples(60)
def test_any_two_runs_are_shown_with_every_round_of_both(a: list[tuple[str, str, str]], b: list[tuple[str, str, str]]) -> None:
    comparison = diff(run_of(*a), run_of(*b))
    html = diff_html(comparison)
    alike = sum(pair.difference == "same" for pair in comparison.rounds)
    assert len(re.findall(r'id="agentnb-diff', html)) == len(comparison.a.rounds) + len(comparison.b.rounds) - alike
    assert diff_text(comparison)
