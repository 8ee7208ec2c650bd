"""Random guidance: sets drawn per run or round by a seed, logged and never redrawn."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from cut_runs import cut, work
from ephemeral_text import OFF
from scripted_runs import agent_of, do

from agentnb import Agent, Matrix, RandomGuidance, Run, Store, fork_sync, recover, replay, reproduce_sync, tables
from agentnb.core.log.events import ModelReplied
from agentnb.errors import SettingsError
from agentnb.guidance.draws import draws_of
from agentnb.models import ScriptedModel
from agentnb.policies import PolicyBundle

SETS = {"matrix": 0.25, "off": 0.75}
REPLIES = [*map(do, range(1, 7)), "[WORKFLOW_COMPLETE]"]


def drawing(*replies: object, **settings: object) -> Agent:
    guidance = RandomGuidance(SETS, **{"assign": "round", "seed": 3, **settings})  # type: ignore[arg-type]
    return agent_of(*(replies or REPLIES), tools=[work], guidance=guidance, todos=False)


def drawn(run: Run) -> list[tuple[int | None, str, float]]:
    return [(event.round, event.set, event.propensity) for event in draws_of(run)]


def expected(seed: object, rounds: int) -> list[tuple[int, str, float]]:
    """Draw in plain code: the first set below its propensity."""
    names = ["matrix" if Random(f"{seed}:{index}").random() < 0.25 else "off" for index in range(rounds)]
    return [(index, name, SETS[name]) for index, name in enumerate(names)]


def guided(run: Run) -> dict[int, set[str]]:
    return {round.index: {guidance.set for guidance in round.guidance} for round in run.rounds if round.guidance}


def test_each_round_has_its_own_seeded_draw() -> None:
    run = drawing().run_sync("Go")
    assert drawn(run) == expected(3, 8)
    assert {name for _, name, _ in drawn(run)} == {*SETS} and run.drawn is not None and run.drawn.among == SETS
    assert guided(run) == {index: {name} for index, name, _ in drawn(run) if 0 < index < 7 and name != "off"}
    assert drawn(drawing().run_sync("Go")) == drawn(run) != drawn(drawing(seed=4).run_sync("Go"))
    own = drawing(seed=None).run_sync("Go")
    assert drawn(own) == expected(own.id, 8)


def test_run_draws_guidance_once_by_default(tmp_path: Path) -> None:
    once = agent_of(*REPLIES, tools=[work], guidance=RandomGuidance(SETS, seed=1), todos=False)
    run = once.run_sync("Go", store=Store(tmp_path))
    assert drawn(run) == expected(1, 1)
    (row,) = tables.runs(tmp_path).to_dict("records")
    assert (row["guidance"], row["guidance_propensity"]) == drawn(run)[0][1:]
    by_round = tables.runs(drawing().run_sync("Go"))
    assert by_round[["guidance", "guidance_version", "guidance_propensity"]].isna().all().all()


def test_draws_follow_their_propensities() -> None:
    run = Run()
    names = Counter(draw.set.name for seed in range(4_000) if (draw := RandomGuidance(SETS, "round", seed)(run)))
    assert abs(names["matrix"] / 4_000 - 0.25) < 0.025


def test_propensities_must_sum_to_1(subtests: pytest.Subtests) -> None:
    cases = {
        "The propensities add up to 0.9, not to 1: 0.5 \\+ 0.4": {"matrix": 0.5, "off": 0.4},
        "The propensities add up to 1.00000001, not to 1": {"matrix": 0.5, "off": 0.50000001},
        "The propensity of off is invalid: 0": {"matrix": 1.0, "off": 0},
        "The propensity of matrix is invalid: -0.5": {"matrix": -0.5, "off": 1.5},
        "The propensity of off is invalid: nan": {"matrix": 0.5, "off": float("nan")},
        "The propensity of off is invalid: True": {"matrix": 0.5, "off": True},
        "must be two or more guidance sets": {"matrix": 1.0},
        "There is no guidance set 'of'": {"matrix": 0.5, "of": 0.5},
    }
    for message, sets in cases.items():
        with subtests.test(message), pytest.raises(SettingsError, match=message):
            RandomGuidance(sets)
    assert RandomGuidance({"matrix": 0.1 + 0.2, "off": 0.7}).among == {"matrix": 0.1 + 0.2, "off": 0.7}
    with pytest.raises(SettingsError, match="assign='rounds'"):
        RandomGuidance(SETS, "rounds")  # type: ignore[arg-type]


def test_drawing_policy_refuses_random_guidance() -> None:
    class Drawing(Matrix):
        def rules(self, *words: object, **more: object) -> PolicyBundle:
            return Matrix().rules(*words, **more)._replace(draw=lambda run: None)  # type: ignore[arg-type]

    with pytest.raises(SettingsError, match="draws guidance sets itself"):
        agent_of("Hm.", guidance=RandomGuidance(SETS), policy=Drawing())


def test_replay_and_reproduction_make_no_new_draws() -> None:
    run = drawing(seed=None).run_sync("Go")  # another run has another id and other draws
    again = replay(run)
    rounds = len(run.rounds)  # the last draw is for a round that a policy prevented
    assert (guided(again.would_be), again.first_divergence) == (guided(run), None)
    assert drawn(again.would_be) == drawn(run)[:rounds]
    same = reproduce_sync(run)
    assert drawn(same) == drawn(run) and guided(same) == guided(run)
    off = replay(run, guidance=OFF)
    assert guided(off.would_be) == {} and drawn(off.would_be) == []


def test_fork_keeps_existing_draws_and_draws_for_new_rounds() -> None:
    run = drawing().run_sync("Go")
    forked = fork_sync(run, 4, model=ScriptedModel([do(11), do(12), "[WORKFLOW_COMPLETE]"]), tools=[work])
    assert drawn(forked)[:4] == drawn(run)[:4] and drawn(forked) == expected(3, 7)
    other = fork_sync(run, 4, model=ScriptedModel([do(11), "[WORKFLOW_COMPLETE]"]), tools=[work], guidance="matrix")
    assert drawn(other) == []


def test_run_interrupted_anywhere_repeats_no_draws(tmp_path: Path, subtests: pytest.Subtests) -> None:
    whole = drawing(seed=None).run_sync("Go")
    for count in range(1, len(whole.events)):
        with subtests.test(count):
            died = whole.events[:count]
            replies = REPLIES[sum(isinstance(event, ModelReplied) for event in died) :]
            by_log = asyncio.run(recover(cut(died, tmp_path / f"{count}"), model=ScriptedModel(replies), tools=[work]))
            assert (drawn(by_log), guided(by_log)) == (drawn(whole), guided(whole))
