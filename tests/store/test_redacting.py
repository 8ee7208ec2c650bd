"""Redacted runs: no text matches the user's patterns, and the run can be loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentnb import Agent, Run, ToolCall, load_trace, save_trace, settings, tool
from agentnb.core.log.wire import encode
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.store.redacting import redacted


@tool
def account(number: str) -> dict[str, str]:
    """Look an account up."""
    return {"owner": "Ada Lovelace", number: "open"}


@pytest.fixture(scope="module")
def run() -> Run:
    call = ToolCall("account", {"number": "DE-1234"}, "call_1234")
    return Agent(ScriptedModel([call, "DE-1234 is Ada's."]), tools=[account]).run_sync("Who owns DE-1234?")


def test_redacted_patterns_appear_in_no_saved_format(run: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("run.jsonl", "run.html", "run.json"):
        with subtests.test(name):
            form = "sam" if name == "run.json" else None
            path = save_trace(run, tmp_path / name, form, redact=[r"DE-\d+", re.compile("ada( lovelace)?", re.IGNORECASE)])
            loaded = load_trace(path)
            log = b"".join(encode(event) for event in loaded.events)
            shown = path.read_bytes().partition(b"<template")[0]  # compressed, a log may contain any few letters by chance
            for secret in (b"DE-1234", b"Ada", b"Lovelace"):
                assert secret not in shown and secret not in log
            assert b"[redacted]" in log and loaded.rounds[0].records[0].call.id == "call_1234"
            assert loaded.rounds[0].records[0].call.arguments == {"number": "[redacted]"}


def test_ids_link_events_and_survive_any_pattern(run: Run) -> None:
    other = redacted(run, r"\w+")
    assert other.id == run.id and [round_.calls[0].id for round_ in other.rounds[:1]] == ["call_1234"]
    assert other.text == "[redacted]-[redacted] [redacted] [redacted]'[redacted]." and other.status == "completed"


def test_redaction_without_patterns_masks_only_known_keys(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert redacted(run) is run
    monkeypatch.setattr(settings, "secrets", lambda: ("DE-1234 is Ada's",))
    assert redacted(run).text == "[key]."


def test_invalid_pattern_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'\(' is not a regular expression"):
        save_trace(run, tmp_path / "x.jsonl", redact="(")
    with pytest.raises(SettingsError, match=r"no export format 'sams'.*sam"):
        save_trace(run, tmp_path / "x.jsonl", "sams")
    with pytest.raises(SettingsError, match="2 runs do not fit into one html file"):
        save_trace([run, run], tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []
