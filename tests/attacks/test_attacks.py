"""No attack of the table comes to anything, and each would where nothing held it off."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack_rows import ATTACKS, Attack
from bash_calls import sandbox_problem
from property_settings import size
from scene import Scene

from agentnb.testing import LoopbackServer


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A server that answers whoever sends a key."""
    with LoopbackServer(lambda body: "Hi.") as server:
        yield server


def missing(attack: Attack) -> str:
    """Return the missing requirement of an attack on this machine; empty if it can run."""
    absent = [program for program in attack.needs if shutil.which(program) is None]
    return f"no {absent[0]} here" if absent else sandbox_problem().partition("\n")[0] if "sandbox" in attack.tools else ""


@pytest.mark.slow("55 attacks, at night 160, each with a run, git and a home of its own")
def test_attack_does_no_damage(
    subtests: pytest.Subtests, tmp_path: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attack in ATTACKS[:: size(3, nightly=1)]:
        if problem := missing(attack):
            print(f"{attack.kind}, {attack.name}: not tried, {problem}")
            continue
        with subtests.test(f"{attack.kind}: {attack.name}"):
            scene = Scene(attack, tmp_path, server, monkeypatch)
            scene.run()
            assert not [*scene.harms()]


@pytest.mark.nightly("by day the same attacks, held off")
def test_attack_succeeds_without_its_defence(
    subtests: pytest.Subtests, tmp_path: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attack in ATTACKS:
        if missing(attack):
            continue
        with subtests.test(f"{attack.kind}: {attack.name}"):
            scene = Scene(attack, tmp_path, server, monkeypatch)
            scene.act()
            assert [*scene.harms()]


def test_table_has_many_attacks_of_each_kind() -> None:
    kinds = Counter(attack.kind for attack in ATTACKS)
    print(f"{len(ATTACKS)} attacks: {dict(kinds)}")
    assert len({(attack.kind, attack.name) for attack in ATTACKS}) == len(ATTACKS)
    assert len(ATTACKS) >= 60 and kinds["planted repository"] + kinds["personal folder"] >= 25
