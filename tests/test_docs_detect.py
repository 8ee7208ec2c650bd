"""docs/detect.md is current: its presets exist and its cells run."""

from __future__ import annotations

import re
from pathlib import Path

from run_builder import Calls

from agentnb import Agent, load_trace
from agentnb.detect import presets
from agentnb.models import ScriptedModel

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "detect.md").read_text(encoding="utf-8")


def test_presets_named_on_the_page_exist() -> None:
    named = set(re.findall(r"`(\w+)`", TEXT.partition("## Presets")[2].partition("\n## ")[0]))
    assert named <= {*presets.names()} and "default_without_texts" in named


def test_cells_on_the_page_run() -> None:
    first, scores, own, asks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    known: dict[str, object] = {}
    exec(first, known)
    runs = [load_trace("complex-fails.json"), Calls(run_id="short").call().run]
    exec(scores, known | {"runs": runs, "labels": [1, 0]})
    exec(own, known)
    exec(asks, known)


def test_rules_named_on_the_page_match_the_default_preset() -> None:
    rules = re.findall(r"\*\*`(\w+)`\*\*", TEXT)
    assert {*rules} == {*presets.describe("default").rule_names}
    agent = Agent(ScriptedModel(["Done."]), detect="default")
    assert agent.settings["extensions"][0]["settings"] == {"preset": "default"}
