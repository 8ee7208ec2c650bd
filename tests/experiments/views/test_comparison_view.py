"""Comparisons as text and HTML: the facts beside the number, and no markup from names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from made_results import CALLED, results_from, results_of, row
from shown_words import words_in
from small_experiments import small

from agentnb import compare
from agentnb.experiments.defaults import MAX_FLIPS
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.views.comparison_facts import Estimate
from agentnb.experiments.views.comparison_view import comparison_html, comparison_text
from agentnb.experiments.views.interval_bar import GREY, intervals_html

HALF = [1, 0] * 20
MORE = [1, 1, 1, 0] * 10


def compared(a: Any, b: Any, repeats: int = 1, **more: Any) -> Comparison:
    return compare(results_of({"a": a, "b": b}, repeats, **more), "a", "b")


def half_missing() -> Comparison:
    """Half of the tasks of b have no value, and half of the others rise; a fails where b is missing."""
    lost = {"values": {CALLED: None}}
    rows = [row("a", f"t{n}", n % 2 == 0) for n in range(20)] + [
        row("b", f"t{n}", False, **(lost if n % 4 == 3 else {"check_errors": {CALLED: "KeyError: 'x'"}} if n % 2 else {}))
        for n in range(20)
    ]
    return compare(results_from(rows), "a", "b")


def difference(value: float, limits: tuple[float, float] | None) -> Difference:
    return Difference(value, limits, 0.04, 9, 0, (1,) * 9, 0.95)


def drawn(value: float, limits: tuple[float, float] | None) -> str:
    return intervals_html([Estimate("all runs", difference(value, limits))])


def test_verdict_states_the_observed_or_the_detectable_difference(snapshot: Snapshot, subtests: Any) -> None:
    results = results_of({"a": HALF, "b": [0] * 40, "c": MORE})
    pairs = [row(arm, f"t{n}", (n + (arm == "a")) % 2, cluster=f"c{n // 2}") for arm in "ab" for n in range(16)]
    six = compare(results_of({"b": [0] * 6, "a": [1] * 6, "c": [1] * 6}))[0]
    assert six.p_adjusted == 2 * 2 / 2**6 > 0.05 > 2 / 2**6 == six.p_value
    cases = {
        "tasks that differ within equal clusters": compare(results_from(pairs), "a", "b"),
        "all differ alike, not after Holm": six,
        "too few completed": compared([1] * 20, [None] * 17 + [1] * 3),
        "a difference": compared([1] * 20 + [0] * 20, [0] * 40),
        "no difference": compared(HALF, [0, 1] * 20),
        "no difference by Holm": compare(results, primary="rounds")[0],
        "no cost": compare(results_from([row(a, f"t{n}", True, cost=0.0) for a in "ab" for n in range(12)]), primary="cost")[0],
        "too few tasks": compared([1, 0, 1], [0, 0, 1]),
        "none differs": compared([1] * 12, [1] * 12),
        "all differ alike": compared([1] * 12, [0] * 12),
        "identical runs": compare(
            results_from([row(arm, f"t{n}", True, digest="same") for arm in "ab" for n in range(6)]), "a", "b"
        ),
        "turned by missing values": half_missing(),
        "only runs that did not complete": compared([1] * 20, [None] * 9 + [1] * 11),
        "mostly runs that did not complete": compared([1] * 20, [None] * 9 + [0, *[1] * 10]),
        "alike but for tokens": compare(
            results_from([row(a, f"t{n}", True, digest="same", input_tokens=len(a)) for a in ("a", "bb") for n in range(6)]),
            "a",
            "bb",
        ),
        "adjusted": compare(results_of({"b": HALF, "a": MORE, "c": [0, 1] * 20}))[1],
    }
    assert f"{100 * (1 - 0.05 ** (1 / 8)):.0f}" == "31", "none of 8 clusters differs: an exact upper limit"
    for name, comparison in cases.items():
        with subtests.test(name):
            told = comparison_text(comparison).splitlines()[1]
            assert told == snapshot(name)
            assert told in words_in(comparison_html(comparison))


def test_text_and_html_contain_every_number(snapshot: Snapshot, subtests: Any) -> None:
    lost = [None, None, *MORE[2:]]
    cases = {
        "one repeat": compared(lost, HALF),
        "missing values": half_missing(),
        "four repeats": compared(MORE, HALF, repeats=4, notes=["extended by 10 tasks after its first run"]),
        "three variants": compare(results_of({"b": HALF, "a": MORE, "c": [0, 1] * 20}))[0],
        "loops": compare(
            results_from(
                [row(arm, f"t{n}", n % 2, loop_round=2 if arm == "a" and n < 4 else None) for arm in "ab" for n in range(8)]
            ),
            "a",
            "b",
        ),
    }
    for name, comparison in cases.items():
        with subtests.test(name):
            text = comparison_text(comparison)
            assert text == snapshot(name)
            html = words_in(comparison_html(comparison))
            for line in text.splitlines()[1:]:
                label, _, value = line.removeprefix("Note:").strip().partition("  ")
                assert label.rstrip(":") in html
                assert "c.diff" in line or "side by side" in line or " ".join(value.partition("  (")[0].split()) in html


NAME = re.compile(r'<th class="agentnb-exp-cell agentnb-exp-name"[^>]*>([^<]*)<')


def test_page_folds_what_its_sentence_and_picture_show(subtests: Any) -> None:
    least, spent = "Minimum detectable effect", ["Tasks", "Cost", "Tokens", "Time"]
    adjusted = compare(results_of({"b": HALF, "a": MORE, "c": HALF}))[0]
    cases = {
        "missing values": (half_missing(), spent, ["Difference", "Missing values at their worst", "Left out"]),
        "missing values, adjusted": (
            replace(half_missing(), family=20, p_adjusted=0.5),
            spent,
            ["Missing values at their lowest"],
        ),
        "cut short": (compared([None, None, *MORE[2:]], HALF), spent, ["Difference", "Only completed runs"]),
        "adjusted": (adjusted, spent, ["Difference"]),
        "no difference": (compared(HALF, [0, 1] * 20), [least, *spent], ["Difference"]),
        "too few": (compared([1, 0, 1], [0, 0, 1]), spent, []),
    }
    for name, (comparison, expected, folded) in cases.items():
        with subtests.test(name):
            shown, _, rest = comparison_html(comparison).partition("<details")
            assert NAME.findall(shown) == expected and {*folded} <= {*NAME.findall(rest)}
            picture = words_in(shown.partition("exp-facts")[0])
            assert ("p = " in picture) == (comparison.p_value is not None) and (", Holm" in picture) == ("adjusted" in name)


def test_flips_name_task_values_and_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = small(8, folder="exp").run_sync(show=False)
    comparison = compare(results, "matrix", "off")
    html, flips = comparison_html(comparison), comparison.flips
    assert len(flips) > 0
    for flip in flips.itertuples():
        assert f"c.diff(&quot;{flip.task}&quot;)" in html or f'c.diff("{flip.task}")' in html
        assert comparison.diff(flip.task).a.id == flip.run_a
    links = re.findall(r'<a[^>]* href="([^"]*)"', html)
    assert len(links) == 2 * len(flips) and all((tmp_path / link).is_file() for link in links)


def test_flips_from_memory_have_no_links_and_are_limited() -> None:
    comparison = compared([1] * (MAX_FLIPS + 5), [0] * (MAX_FLIPS + 5))
    html = comparison_html(comparison)
    assert "<a " not in html and html.count("c.diff(") == MAX_FLIPS
    assert "5 more in c.flips" in html


def test_names_of_variants_and_tasks_never_become_markup() -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[31m"
    rows = [row(arm, f"{evil}{n}", n % 2 if arm == evil else 0) for arm in (evil, "b") for n in range(6)]
    comparison = compare(results_from(rows, [evil]), evil, "b")
    html = comparison_html(comparison)
    assert "<img" not in html and html.count("&lt;img") > 5
    assert "\x1b" not in html + comparison_text(comparison)


def test_bar_marks_zero_estimate_and_limits(subtests: Any) -> None:
    for name, limits in {"around 0": (-0.2, 0.4), "above 0": (0.1, 0.3), "below 0": (-0.3, -0.1)}.items():
        with subtests.test(name):
            html = drawn(sum(limits) / 2, limits)
            places = [float(one) for one in re.findall(r"left:([\d.]+)%", html)]
            width = float(re.findall(r"width:([\d.]+)%", html)[0])
            low, zero, estimate = places[:3]
            assert "background" not in html, "untrusted notebooks drop them"
            assert zero == 50 and low < estimate < low + width
            assert (low < 50) == (limits[0] < 0) and (low + width > 50) == (limits[1] > 0)
            assert low >= 0 and low + width <= 100
    assert "a mean of +0.2 in each of 9 tasks" in drawn(0.2, None) and drawn(0.0, None) == ""
    ends = {0.07: "0.1", 0.13: "0.2", 0.5: "0.5", 0.6: "1", 8.0: "10"}
    assert all(f">+{end}<" in drawn(value, None) for value, end in ends.items())
    assert ">+0.8<" in intervals_html([Estimate("all", difference(0.6, None))], most=0.8)


def test_bars_have_contrast_on_light_and_dark_backgrounds(subtests: Any) -> None:
    def light(channel: float) -> float:
        return ((channel / 255 + 0.055) / 1.055) ** 2.4

    grey, alpha = (float(number) for number in re.findall(r"[\d.]+", GREY)[2:])
    for ground in (255, 33, 17):
        with subtests.test(ground):
            bar = light(grey * alpha + ground * (1 - alpha))
            low, high = sorted((bar, light(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3
