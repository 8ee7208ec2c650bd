"""Lift in drawn worlds: intervals cover a known effect, and Holm holds its level without one."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from binomial_bounds import at_most
from drawn_rounds import Persona, draw_rounds, rows_of
from property_settings import AT_NIGHT, size

DRAWS = size(20, nightly=2_000)
HALVES, UNEVEN = {"off": 0.5, "matrix": 0.5}, {"off": 0.7, "brief": 0.1, "matrix": 0.2}
DESIGNS = {"halves": (HALVES, 20), "uneven": (UNEVEN, 40), "few tasks": (HALVES, 8)}
TRIED = [*DESIGNS] if AT_NIGHT else ["uneven", "few tasks"]


def true_effects(persona: Persona, propensities: dict[str, float]) -> dict[tuple[str, str, str], float]:
    """Return the effect by set, kind and trigger, from enough rounds to neglect errors, weighted in plain code."""
    values: dict[tuple[str, str, str], list[list[float]]] = {}
    for one in draw_rounds(Random("many"), size(4_000, nightly=20_000), persona, propensities):
        draw = one.injection
        for name in {*propensities} - {draw.against}:
            if draw.set in (name, draw.against):
                values.setdefault((name, *draw.place), [[], []])[draw.set == name].append(bool(draw.value))
    return {key: fmean(told) - fmean(rest) for key, (rest, told) in values.items()}


@pytest.mark.parametrize("name", TRIED)
def test_intervals_cover_the_effect_on_simulated_personas(name: str) -> None:
    propensities, tasks = DESIGNS[name]
    persona = Persona({"matrix": 0.5, "brief": 0.2}, tired=0.5)
    effects = true_effects(persona, propensities)
    known = [
        (row, effects[row["set"], row["kind"], row["trigger"]])
        for number in range(DRAWS)
        for row in rows_of(Random(f"{name} {number}"), tasks, persona, propensities)
        if row["lift_low"] is not None
    ]
    missed = sum(not row["lift_low"] <= effect <= row["lift_high"] for row, effect in known)
    assert len(known) >= DRAWS and missed <= at_most(0.05, len(known)), f"{missed} of {len(known)} miss"
    shown = [row["p_adjusted"] < 0.05 for row, _ in known if row["set"] == "matrix"]
    assert any(shown)


@pytest.mark.parametrize("name", TRIED)
def test_holm_adjustment_keeps_its_level_without_an_effect(name: str) -> None:
    propensities, tasks = DESIGNS[name]
    tables = [rows_of(Random(f"{name} null {number}"), tasks, Persona({}), propensities) for number in range(2 * DRAWS)]
    least = [min(one for row in rows if (one := row["p_adjusted"]) is not None) for rows in tables if _has_p(rows)]
    false = sum(p_value < 0.05 for p_value in least)
    assert len(least) > DRAWS and false <= at_most(0.05, len(least)), f"{false} of {len(least)} show an effect"
    unadjusted = sum(any(row["p_value"] is not None and row["p_value"] < 0.05 for row in rows) for rows in tables)
    assert unadjusted >= false


def _has_p(rows: list[dict[str, object]]) -> bool:
    return any(row["p_value"] is not None for row in rows)
