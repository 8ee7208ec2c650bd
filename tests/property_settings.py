"""How many examples a property test tries: few in every run, many at night."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(nightly: int, **options: Any) -> settings:
    """Return the settings of a property test that tries ``nightly`` examples in ``make nightly`` and 20 otherwise.

    Use it as a decorator above ``@given``, in place of ``@settings(max_examples=...)``. The profiles, in `conftest.py`, set
    everything else: no deadline, no database, slow generation is no failure. ``options`` are further settings of Hypothesis.
    """
    usual = settings.get_profile(settings.get_current_profile_name())
    at_night = settings.get_current_profile_name() == "nightly"
    return settings(usual, max_examples=nightly if at_night else min(nightly, usual.max_examples), **options)
