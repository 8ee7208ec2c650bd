"""Files that agentnb reads and writes for an agent: rules, confinement and undo apply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Store
from agentnb.acp.agent_calls import ExternalCall
from agentnb.core.run.rounds import CallRecord
from agentnb.detect.run import Run
from agentnb.rerun.undo.undoing import undo_run

Make = Callable[..., Agent]


@pytest.mark.parametrize(("prompt", "file", "text"), [("through", "a.txt", "Written."), ("unannounced", "b.txt", None)])
def test_written_file_can_be_restored_by_undo(fake: Make, tmp_path: Path, prompt: str, file: str, text: str | None) -> None:
    store = Store(tmp_path / "runs")
    run = fake().run_sync(prompt, approve="auto", store=store)
    made = [
        (record.call.name, Path(record.call.arguments["path"]).name, record.result and record.result.is_error)
        for record in _records(run)
    ]
    assert made[0] == ("write_file", file, False)
    assert text is None or run.text == text
    assert (tmp_path / file).exists()
    undo_run(store, run.id)
    assert not (tmp_path / file).exists()


def test_file_outside_the_folder_is_refused(fake: Make, tmp_path: Path) -> None:
    run = fake().run_sync("unannounced", approve="auto")
    assert run.text == "refused "
    second = _records(run)[1].result
    assert second is not None and second.is_error
    assert not (tmp_path.parent / "outside.txt").exists()


def test_disallowed_file_is_not_written(fake: Make, tmp_path: Path) -> None:
    run = fake().run_sync("unannounced", permissions={"write_file": "deny"}, approve="auto")
    assert run.text == "refused refused " or not (tmp_path / "b.txt").exists()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("prompt", "options", "text", "code"),
    [
        ("fetch lines.txt", {}, "two\n", ""),
        ("fetch missing.txt", {}, "no", "-32002"),
        ("fetch ../outside.txt", {}, "no", "-32602"),
        ("fetch lines.txt", {"permissions": {"read_file(lines.*)": "deny"}}, None, "-32602"),
        ("fetch .env", {"approve": lambda call, run: False}, None, "-32602"),
    ],
)
def test_file_is_read_during_the_call_that_names_it(
    fake: Make, tmp_path: Path, prompt: str, options: dict[str, Any], text: str | None, code: str
) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / ".env").write_text("a\nb\n")
    run = fake().run_sync(prompt, **options)
    (record,) = _records(run)
    assert (record.call.name, record.call.arguments) == ("read_file", {"path": prompt.partition(" ")[2]})
    assert record.result is not None
    assert (record.result.text == text) is (text is not None)
    assert run.text == code


def test_only_open_calls_are_searched(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    covers = ExternalCall.covers

    def noting(call: ExternalCall, kind: str, subject: str) -> bool:
        looked_at.append(call.id)
        return covers(call, kind, subject)

    monkeypatch.setattr(ExternalCall, "covers", noting)
    fake().run_sync("unasked unasked through a.txt", approve="auto")
    assert {*looked_at} == {"call-3"}


def test_probing_for_a_missing_file_is_not_logged_as_call(fake: Make) -> None:
    run = fake().run_sync("probe AGENTS.md")
    assert (run.text, _records(run)) == ("-32002", [])


def test_key_in_a_file_is_hidden_from_the_agent(fake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key := "sk-" + 30 * "k")
    (tmp_path / "keys.txt").write_text(f"one\n{key}\n")
    run = fake().run_sync("peek keys.txt", approve="auto")
    assert run.text == "[1, 1]"
    assert str(_records(run)).count("[key]") == 2


def _records(run: Run) -> list[CallRecord]:
    return [record for current in run.rounds for record in current.records]
