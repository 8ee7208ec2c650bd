"""Whole reports: complete, without foreign markup, and without keys."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_results import results_of
from markdown_it import MarkdownIt
from reported_experiments import HOSTILE, REASON, troubled
from shown_words import words_in
from small_experiments import small

from agentnb import GuidanceSet, compare, settings
from agentnb.errors import SettingsError
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.views.comparison_facts import facts, sensitivity, verdict

DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
OWN_TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "ul", "li", "pre", "code"}
OWN_TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "div", "span", "a", "figure", "img"}
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def results() -> Results:
    return troubled()


@pytest.fixture(scope="module")
def written(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    assert results.report(folder / "paper.html") == folder / "paper.html"
    assert results.report(folder / "paper.md") == folder / "paper.md"
    return folder


class Elements(HTMLParser):
    """Parse the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def shown(folder: Path) -> Iterator[tuple[str, str]]:
    """Return the text of both reports, by file suffix."""
    yield "html", words_in((folder / "paper.html").read_text("utf-8"))
    tokens = READER.parse((folder / "paper.md").read_text("utf-8"))
    texts = [child.content for token in tokens for child in token.children or [] if child.content]
    yield "md", " ".join(" ".join(texts + [token.content for token in tokens if token.type == "fence"]).split())


def test_report_covers_all_parts_of_the_experiment(written: Path, results: Results, subtests: pytest.Subtests) -> None:
    (comparison,) = compare(results)
    sentences = [
        verdict(comparison),
        "extended by 1 task after its first run",
        f"2 runs again: {REASON}",
        "looked at after 5 of 16 runs",
        comparison.robustness,
        "Hash of the plan",
        results.plan.hash,
        "steady-2026-01",
        "flaky <b>2</b>",
        f"refused {HOSTILE}"[:60],
        "by genai-prices (version below)",
        "drawn with the seed 0",
        "Runs ended by a limit, a policy or an unusable reply: a check that passes or fails is not passed, ",
        "Runs ended by the provider, a kill or a person: missing. The second analysis leaves out all of these runs.",
        "the comparison of completed runs is not randomised: it checks the first analysis",
        "The primary outcome is is_even: Unknown of the task 5, passed of even ones, and of all of one variant. ",
        "The prompt of the first task, t0: Do task 0 of ",
        f"is_even: {HOSTILE!r} 100 %, 'steady' 57.1 %. ",
        " Difference: ",
        "paper_data/runs.csv",
        "paper_data/attempts.csv",
        "def is_even(run: Run, row: Any)",
        "exp = Experiment(",
        *[fact.value for fact in (*facts(comparison), *sensitivity(comparison))],
    ]
    for ending, text in shown(written):
        for sentence in sentences:
            with subtests.test(ending=ending, sentence=sentence):
                assert " ".join(sentence.split()) in text


def test_text_never_becomes_markup(written: Path) -> None:
    page = (written / "paper.html").read_text("utf-8")
    elements = Elements(page).found
    assert {tag for tag, _ in elements} <= OWN_TAGS
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    links = [str(attributes.get("href")) for tag, attributes in elements if tag == "a"]
    pictures = [str(attributes.get("src")) for tag, attributes in elements if tag == "img"]
    assert links and all(link.startswith("paper_data/") for link in links)
    assert pictures and all(picture.startswith("data:image/png;base64,") for picture in pictures)
    assert "script-src" not in page and "default-src 'none'" in page
    tokens = READER.parse((written / "paper.md").read_text("utf-8"))
    children = [child for token in tokens for child in token.children or []]
    assert not [one for one in (*tokens, *children) if one.type in ("html_block", "html_inline", "em_open", "strong_open")]
    targets = [str(one.attrs.get("href") or one.attrs.get("src")) for one in children if one.type in ("link_open", "image")]
    assert targets and all(re.match(r"paper_(data|figures)/", target) for target in targets)


def test_data_and_figures_are_files_beside_the_report(written: Path, results: Results) -> None:
    runs = pd.read_csv(written / "paper_data" / "runs.csv")
    assert len(runs) == len(results.rows) == 18 and set(runs.run_id) == {row.run_id for row in results.rows}
    assert len(pd.read_parquet(written / "paper_data" / "runs.parquet")) == 18
    assert len(pd.read_csv(written / "paper_data" / "attempts.csv")) == 20
    assert [task["id"] for task in json.loads((written / "paper_data" / "tasks.json").read_text("utf-8"))] == [
        f"t{number}" for number in range(9)
    ]
    figures = sorted(path.name for path in (written / "paper_figures").iterdir())
    assert figures == ["cost_against_success.png", "differences.png", "flips_1.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (written / "paper_figures").iterdir())


def test_identical_results_produce_identical_reports(written: Path, results: Results, tmp_path: Path) -> None:
    for name in ("paper.html", "paper.md"):
        results.report(tmp_path / name)
        texts = [DATE.sub("DATE", (folder / name).read_text("utf-8")) for folder in (written, tmp_path)]
        assert texts[0] == texts[1]


@pytest.mark.usefixtures("unpainted")
def test_changing_the_primary_is_reported_as_a_deviation(results: Results, tmp_path: Path) -> None:
    text = results.report(tmp_path / "paper.md", primary="rounds").read_text("utf-8")
    assert "the primary was frozen as is_even, and rounds was chosen later" in text


@pytest.mark.usefixtures("unpainted")
def test_report_contains_custom_guidance_sets(tmp_path: Path) -> None:
    own = GuidanceSet("own", {"text": "Call\nit.", "tools": "Now."})
    results = small(6, {"off": "off", "own": own}, primary="answered").run_sync(show=False)
    text = results.report(tmp_path / "paper.md").read_text("utf-8")
    assert "| own | guidance own (tools: Now.; text: Call it.) (content " in text and "| off | guidance off (content " in text


@pytest.mark.usefixtures("unpainted")
def test_report_without_pyarrow_notes_its_absence(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("agentnb.experiments.report.data.find_spec", lambda name: None if name == "pyarrow" else find(name))
    text = results.report(tmp_path / "paper.md").read_text("utf-8")
    assert "There are no Parquet files" in text and not [*(tmp_path / "paper_data").glob("*.parquet")]


def test_no_report_file_contains_a_known_key(tmp_path: Path) -> None:
    key, looks_like_one = "plant-0123456789abcdef-of-this-kernel", "sk-ant-api03-" + "Ab1" * 30
    rows = [{"id": f"t{n}", "prompt": f"Use {looks_like_one}", "note": key} for n in range(6)]
    variants = {"plain": "off", key: {"prompt": f"{looks_like_one} {{{{ prompt }}}}"}, looks_like_one: "matrix"}
    settings.keep_key("PLANT_KEY", key)
    try:
        results = replace(small(6, variants, primary="answered"), tasks=rows).run_sync(show=False)
        for name in ("paper.html", "paper.md"):
            results.report(tmp_path / name)
    finally:
        settings.forget_key("PLANT_KEY")
    data = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(data) > 5 and not [one for one in data if key.encode() in one or looks_like_one.encode() in one]


def test_impossible_reports_are_refused_with_advice(results: Results, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\.html or \.md"):
        results.report(tmp_path / "paper.pdf")
    with pytest.raises(SettingsError, match="do not belong to an experiment"):
        results_of({"a": [1] * 6, "b": [0] * 6}).report(tmp_path / "paper.html")
    experiment = small(6, places=1)
    live: Any = experiment.start(show=False, watch=lambda progress: progress.done == 3 and live.stop())
    with pytest.raises(SettingsError, match="hidden"):
        live.wait().report(tmp_path / "paper.html")
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("unpainted")
def test_report_at_a_planned_look_names_the_look(tmp_path: Path) -> None:
    experiment = small(24, looks=2)
    results = experiment.run_sync(show=False)
    text = results.report(tmp_path / "paper.md").read_text("utf-8")
    early = "A difference shown at an early look is on average too large"
    assert early in text
    assert "these are the results of look 1 of 2, after 12 of 24 tasks, whose level is 0.0031" in text
    assert "| matrix | 24 | 12 | 0 | 12 | 0 | 0 | 0 | 12 |" in text, "12 runs of a variant come after this look"
    last = experiment.run_sync(show=False)
    assert not last.deviations and early not in last.report(tmp_path / "last.md").read_text("utf-8")
