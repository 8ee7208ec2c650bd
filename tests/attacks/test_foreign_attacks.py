"""No external agent gets further than the rules of the person, whatever it sends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from foreign_rows import ATTACKS
from foreign_scene import Scene
from property_settings import size


@pytest.mark.slow("47 attacks, at night 140, each a run")
def test_external_agent_stays_within_its_rules(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, attack in enumerate(ATTACKS[:: size(3, nightly=1)]):
        with subtests.test(f"{attack.kind}: {attack.name}"):
            scene = Scene(attack, tmp_path / str(number), monkeypatch)
            scene.run()
            assert not [*scene.harms()]


def test_table_has_many_attacks_of_external_agents() -> None:
    kinds = Counter(attack.kind for attack in ATTACKS)
    print(f"{len(ATTACKS)} attacks: {dict(kinds)}")
    assert len({(attack.kind, attack.name) for attack in ATTACKS}) == len(ATTACKS) >= 100
