"""No external agent gets further than the rules of the person, whatever it sends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from foreign_rows import ATTACKS
from foreign_scene import Scene


@pytest.mark.slow("120 attacks, each a run")
def test_no_agent_of_others_gets_further_than_its_rules(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, attack in enumerate(ATTACKS):
        with subtests.test(f"{attack.kind}: {attack.name}"):
            scene = Scene(attack, tmp_path / str(number), monkeypatch)
            scene.run()
            assert not [*scene.harms()]


def test_the_table_has_many_attacks_of_agents_of_others() -> None:
    kinds = Counter(attack.kind for attack in ATTACKS)
    print(f"{len(ATTACKS)} attacks: {dict(kinds)}")
    assert len({(attack.kind, attack.name) for attack in ATTACKS}) == len(ATTACKS) >= 100
