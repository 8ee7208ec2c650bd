"""Drawn worlds: errors, intervals and stated effects are as often right as they say, or the result says why not."""

from __future__ import annotations

import pytest
from binomial_bounds import at_least, at_most
from drawn_worlds import WORLDS, Measured, measure
from property_settings import AT_NIGHT, size

DRAWS = size(200, nightly=2_000)
SIZES = [(tasks, repeats) for tasks in (6, 15, 29, 30, 100) for repeats in (1, 5)] if AT_NIGHT else [(0, 0)]
"""Tasks and repeats of each world; 0: its own."""


@pytest.mark.slow("two hundred comparisons of each of eighteen worlds, three times")
def test_worlds_are_told_as_they_are(subtests: pytest.Subtests) -> None:
    for name, world in WORLDS.items():
        for tasks, repeats in SIZES if len(SIZES) == 1 or world.is_crossed else [(0, 0)]:
            found = measure(name, DRAWS, tasks, repeats)
            print(f"{name}, {tasks or world.tasks} tasks, {repeats or world.repeats} repeats: {found}")
            with subtests.test(f"{name}, {tasks or world.tasks} tasks, {repeats or world.repeats} repeats"):
                _check(found, world.excuse, states=world.states, is_assumed=world.is_assumed)
