"""Guidance sets drawn per round: ledger, replay and recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from cut_runs import cut, work
from ephemeral_text import MATRIX, OFF, own_set, reminders
from scripted_runs import agent_of, do

from agentnb import GuidanceSet, Matrix, Run, Store, fork_sync, recover, replay, tables
from agentnb.core.log.events import ModelReplied, RoundStarted
from agentnb.core.log.work_events import GuidanceDrawn
from agentnb.core.request import Request
from agentnb.guidance.draws import DrawnSet
from agentnb.guidance.parts import PARTS
from agentnb.models import ScriptedModel
from agentnb.policies import Policy, PolicyBundle

SILENT = dict.fromkeys(PARTS, "")
LOUD = GuidanceSet("loud", SILENT | {"tools": "GO ON NOW.", "workflow": "NOT YET.", "note": "ROUND {{ round }}."})
CALM = GuidanceSet("calm", SILENT | {"tools": "Take your time.", "workflow": "A little more.", "note": "Round {{ round }}."})
SETS = {one.name: one for one in (LOUD, CALM)}
REPLIES = [do(1), do(2), "Hm.", do(3), "[WORKFLOW_COMPLETE]"]
DRAWN = ["loud", "calm"] * 3
"""The set of each round; the last is drawn before a policy ends the run."""


def draw(run: Run) -> DrawnSet:
    """Return the sets in turn, by round number."""
    return DrawnSet((LOUD, CALM)[len(run.rounds) % 2], 0.5, dict.fromkeys(SETS, 0.5))


@dataclass
class Drawing:
    """A user-defined policy that draws."""

    name = "drawing"
    usual: Matrix = field(default_factory=lambda: Matrix(workflow_mode=True))
    draw: Callable[[Run], DrawnSet | None] = draw

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        return self.usual.rules(words, *limits, repeatable=repeatable)._replace(draw=self.draw)


agent = partial(agent_of, tools=[work], policy=Drawing(), todos=False)


def sets_of(run: Run) -> list[str]:
    """Return the set of each round, from its note."""
    return ["loud" if round.note.startswith("ROUND") else "calm" for round in run.rounds]


def given(run: Run) -> list[tuple[int, str, str]]:
    return [(round.index, guidance.set, guidance.text) for round in run.rounds for guidance in round.guidance]


def drawn(run: Run) -> list[str]:
    return [event.set for event in run.events if isinstance(event, GuidanceDrawn)]


def seen(requests: Iterable[Request]) -> list[str]:
    return ["\n".join(reminders(request)) for request in requests]


WHOLE = [(1, "calm", "Take your time."), (2, "loud", "GO ON NOW."), (3, "calm", "A little more."), (4, "loud", "GO ON NOW.")]


def test_set_drawn_per_round_appears_in_requests_and_ledger(tmp_path: Path) -> None:
    drawing = agent(*REPLIES)
    live = drawing.run_sync("Go", store=Store(tmp_path))
    for run in (live, Store(tmp_path).load(live.id)):
        assert (run.stop_reason, sets_of(run), given(run)) == ("workflow_complete", DRAWN[:5], WHOLE)
        assert drawn(run) == DRAWN and run.drawn is not None and run.drawn.among == {"loud": 0.5, "calm": 0.5}
        ledger = tables.guidance(run)
        assert [*zip(ledger["round"], ledger["set"], strict=True)] == [(index + 1, name) for index, name, _ in WHOLE]
        assert [*ledger["version"]] == [SETS[name].version for _, name, _ in WHOLE]
        assert run.settings["guidance"]["set"] == "matrix" and run.guidance == CALM.as_texts.texts
    assert isinstance(drawing.model, ScriptedModel)
    assert ["ROUND 5." in text for text in seen(drawing.model.requests)] == [False] * 4 + [True]


def test_replay_keeps_drawn_sets_unless_given_another() -> None:
    run = agent(*REPLIES).run_sync("Go")
    again = replay(run, policy=Drawing())
    assert (given(again.would_be), again.first_divergence) == (WHOLE, None)
    other = replay(run, policy=Drawing(), guidance=own_set(tools="Mine."))
    assert {name for _, name, _ in given(other.would_be)} == {"own"} and drawn(other.would_be) == []


def test_fork_keeps_drawn_sets_unless_given_another() -> None:
    run = agent(*REPLIES).run_sync("Go")
    for guidance, name in ((None, "loud"), (OFF, "")):
        forked = fork_sync(run, 3, model=ScriptedModel(["[WORKFLOW_COMPLETE]"]), guidance=guidance, policy=Drawing().usual)
        assert [set for index, set, _ in given(forked) if index == 2] == [name] * bool(name)


def test_run_interrupted_anywhere_keeps_its_draws(tmp_path: Path, subtests: pytest.Subtests) -> None:
    whole = agent(*REPLIES).run_sync("Go")
    for count in range(1, len(whole.events)):
        with subtests.test(count):
            died = whole.events[:count]
            replied = sum(isinstance(event, ModelReplied) for event in died)
            path = cut(died, tmp_path / str(count))
            again = asyncio.run(recover(path, agent=agent(*REPLIES[replied:])))
            assert (sets_of(again), given(again), drawn(again)) == (DRAWN[:5], WHOLE, DRAWN)


def test_guidance_set_given_at_recovery_applies(tmp_path: Path) -> None:
    usual = Matrix(workflow_mode=True)
    whole = agent(*REPLIES, policy=usual, guidance=LOUD).run_sync("Go")
    begun = next(at for at, event in enumerate(whole.events) if isinstance(event, RoundStarted) and event.index == 2)
    path = cut(whole.events[:begun], tmp_path)
    again = asyncio.run(recover(path, agent=agent(*REPLIES[2:], policy=usual, guidance=CALM)))
    assert sets_of(again) == ["loud", "loud", "calm", "calm", "calm"]
    calm = [(2, "calm", "Take your time."), *WHOLE[2:3], (4, "calm", "Take your time.")]
    assert given(Store(path.parent).load(again.id))[1:] == calm
    assert again.guidance_in_force == CALM.as_texts and MATRIX.as_texts != CALM.as_texts
