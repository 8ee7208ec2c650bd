"""docs/extending.md is current: its examples run, and import public names only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import agentnb

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_examples_on_the_page_run_in_order() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for example in EXAMPLES:
        exec(example, names)
    assert names["denied"].is_error and names["removed"].text == "removed old.txt"
    assert names["stopped"].stop_reason == "enough" and "Be brief." in names["stopped"].system
    assert isinstance(names["found"], list)
    assert names["views"].status == "completed"
    assert names["views"].step_records["join"].output == "ada agrees. ben agrees."
    assert names["greeting"] == "Hello."


def test_names_on_the_page_are_public() -> None:
    imported = re.findall(r"^from agentnb import (.*)$", "".join(EXAMPLES), re.MULTILINE)
    names = {name.strip() for line in imported for name in line.split(",")}
    assert names >= {"Ask", "Deny", "Extension", "Finding", "Orchestration", "StepOrchestrator", "Stop", "portable"}
    assert names | {"Allow", "Block", "Continue", "PolicyBundle"} <= {*agentnb.__all__}
