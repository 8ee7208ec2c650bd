"""Conversations of Magentic-One and Who&When: every message with its speaker, and the blamed agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentnb import Run, load_trace
from agentnb.core.messages import Thinking

FILES = Path(__file__).parent / "files" / "magentic"


def spoken(run: Run) -> list[tuple[str, str]]:
    """Return the speaker and the first characters of every message."""
    return [
        (message.author, ("".join(getattr(part, "text", "") for part in message.parts)).strip()[:20])
        for message in run.messages
    ]


def test_every_message_keeps_its_speaker(subtests: pytest.Subtests) -> None:
    for name in ("thoughts", "named_agents", "blamed"):
        with subtests.test(name):
            found = json.loads((FILES / f"{name}.json").read_text("utf-8"))
            history = found["history"] if isinstance(found, dict) else found
            run = load_trace(FILES / f"{name}.json")
            speakers = [one.get("name") or one["role"].partition(" (")[0].replace("human", "") for one in history]
            assert spoken(run) == [(who, one["content"].strip()[:20]) for who, one in zip(speakers, history, strict=True)]
            assert not any(round_.calls for round_ in run.rounds)


def test_thoughts_become_thinking_and_messages_name_their_recipient() -> None:
    run = load_trace(FILES / "blamed.json")
    first = run.rounds[0].reply
    assert first is not None and isinstance(first.parts[0], Thinking) and run.rounds[0].text == ""
    history = json.loads((FILES / "blamed.json").read_text("utf-8"))["history"]
    named = [one["role"].partition("(-> ")[2].rstrip(")") for one in history if "(-> " in one["role"]]
    assert named and [round_.metadata["to"] for round_ in run.rounds if "to" in round_.metadata] == named
    assert {message.author for message in run.messages} >= {"", "Orchestrator"}


def test_run_status_follows_from_the_termination_condition(tmp_path: Path, subtests: pytest.Subtests) -> None:
    ends = {
        "Max rounds (30) reached.": ("limited", "max_rounds"),
        "Max time (25 minutes) reached.": ("limited", "max_seconds"),
        "No agent selected.": ("completed", "natural"),
        "The power went out.": ("unknown", None),
    }
    for said, (status, reason) in ends.items():
        with subtests.test(said):
            messages = [{"role": "human", "content": "Go"}, {"role": "Orchestrator (termination condition)", "content": said}]
            (tmp_path / "x.json").write_text(json.dumps(messages))
            run = load_trace(tmp_path / "x.json")
            assert (run.status, run.stop_reason) == (status, reason)


def test_blamed_agent_and_step_are_kept_and_prompts_parsed() -> None:
    run = load_trace(FILES / "named_agents.json")
    assert run.settings["recorded"]["mistake_agent"] and run.settings["recorded"]["mistake_step"].isdecimal()
    assert run.origin is not None and run.origin.task.startswith("42576abe")
    assert run.system.startswith("# ")


def test_literal_is_never_evaluated(tmp_path: Path) -> None:
    found = json.loads((FILES / "named_agents.json").read_text("utf-8"))
    found["system_prompt"] = f"__import__('pathlib').Path({str(tmp_path / 'made')!r}).touch()"
    (tmp_path / "x.json").write_text(json.dumps(found))
    assert "__import__" in load_trace(tmp_path / "x.json").system and not (tmp_path / "made").exists()
