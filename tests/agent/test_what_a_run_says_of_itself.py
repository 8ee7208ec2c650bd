"""Metadata in the first event of a run: tags, conversation, scope and guidance."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from scripted_runs import agent_of

from agentnb import GuidanceSet, Store
from agentnb.errors import SettingsError
from agentnb.runtime.host.run_options import RunOptions

agent = partial(agent_of, *["Done."] * 9)


def test_conversation_has_the_id_of_its_first_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = agent().run_sync("One", store=store)
    second = agent().run_sync("Two", store=store, continue_from=first)
    third = agent().run_sync("Three", store=store, continue_from=store.load(second.id))
    other = agent().run_sync("Other", store=store)
    assert [run.conversation for run in (first, second, third, other)] == [first.id, first.id, first.id, other.id]
    assert (third.continued_from, store.load(third.id).conversation) == (second.id, first.id)


def test_tags_and_scope_come_from_the_run_options(tmp_path: Path) -> None:
    options = RunOptions(tags=("night", "half \ud83d"), context_type="review", entity="p-1", store=Store(tmp_path))
    run = agent().start("Go", options).result(30)
    assert (run.tags, run.context_type, run.entity, run.kind) == (("night", "half \ufffd"), "review", "p-1", "agent")
    assert Store(tmp_path).load(run.id) == run and Store(tmp_path).summaries()[0].tags == run.tags


def test_tags_keyword_replaces_tags_of_the_options(subtests: pytest.Subtests) -> None:
    for name, run in {
        "run": asyncio.run(agent().run("go", RunOptions(tags=("day",)), tags=("night",))),
        "start": agent().start("go", RunOptions(tags=("day",)), tags=("night",)).result(30),
        "run_sync": agent().run_sync("go", tags=("night",)),
    }.items():
        with subtests.test(name):
            assert run.tags == ("night",)


def test_invalid_tags_are_refused(subtests: pytest.Subtests) -> None:
    for tags in ("night", ("night", ""), (3,), (" ",)):
        with subtests.test(tags=tags), pytest.raises(SettingsError, match="must be a sequence of strings"):
            RunOptions(tags=tags)  # type: ignore[arg-type]


def test_logged_guidance_omits_empty_parts() -> None:
    words = GuidanceSet("own", {"text": "Be brief.", "note": ""})
    run = agent(guidance=words).run_sync("Go")
    assert dict(run.guidance) == {name: text for name, text in words.parts.items() if text} and "note" not in run.guidance
    assert dict(agent(guidance="off").run_sync("Go").guidance) == {}
