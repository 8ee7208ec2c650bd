"""A scripted agent continues its script after each kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from snapshots import Snapshots
from virtual_time import by_itself

from agentnb import Store, ToolCall, Workflow, recover
from agentnb.errors import SettingsError

TEXT = """
agents:
  writer: {instruction: Write., replies: [one, {error: timeout}, two, three, four]}
  judge: {instruction: Judge., model: "simulated:disciplined"}
workflow:
  - {id: first, type: agent, name: writer, retry: {max_attempts: 1, initial_delay_seconds: 0}}
  - {id: second, type: agent, name: writer, retry: {max_attempts: 1, initial_delay_seconds: 0}}
  - {id: sub, type: workflow, file: inner.yaml}
  - {id: checked, type: agent, name: judge}
  - {id: last, type: agent, name: writer}
"""
INNER = """
agents: {writer: {instruction: Write., replies: [inner one, inner two, inner three]}}
workflow: [{id: a, type: agent, name: writer}, {id: b, type: agent, name: writer}]
"""


@pytest.mark.slow("it dies after each of some hundred events, by day after a third")
def test_each_scripted_reply_is_used_once_despite_process_death(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "inner.yaml").write_text(INNER)
    (tmp_path / "outer.yaml").write_text(TEXT)

    def look() -> str:
        """Look."""
        return "seen"

    replies: dict[str, list[Any]] = {
        "judge": [ToolCall("look"), "good"],
    }

    def made() -> Workflow:
        text = TEXT.replace("instruction: Judge.", "instruction: Judge., tools: [look]")
        (tmp_path / "outer.yaml").write_text(text)
        return Workflow.from_yaml(tmp_path / "outer.yaml", tools=[look])

    store = Snapshots(tmp_path / "whole")
    whole = by_itself(made().run(store=store, show=False, replies=replies))
    texts = {
        name: [execution["output"] for execution in whole.steps[name]["runs"]]
        for name in ("first", "second", "checked", "sub", "last")
    }
    assert texts == {
        "first": ["one"],
        "second": ["two"],
        "checked": ["good"],
        "sub": ["inner two"],
        "last": ["three"],
    }
    assert len(store.kept) > 50
    for folder in store.kept[: -1 : size(3, nightly=1)]:
        here = Store(folder)
        if not here.has(whole.id):
            continue
        with subtests.test(folder.name):
            again = made().orchestration(replies=replies)
            run = by_itself(recover(whole.id, agent=again, store=here))
            assert run.step_context == whole.step_context, run.error


def test_recovering_a_run_requires_its_scripted_replies(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "whole")
    text = TEXT.replace("  - {id: sub, type: workflow, file: inner.yaml}\n", "")
    run = by_itself(Workflow.from_yaml(text).run(store=store, show=False, replies={"judge": ["good", "better"]}))
    here = Store(store.kept[4])
    with pytest.raises(SettingsError, match=r"used scripted replies for judge.*orchestration\(replies="):
        by_itself(recover(run.id, store=here))
    assert by_itself(recover(run.id, store=here, agent=Workflow.of_run(run).orchestration(replies={"judge": ["good"] * 2})))
