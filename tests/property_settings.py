"""Sizes of property tests and of large tests: small in every run, larger at night."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

AT_NIGHT = settings.get_current_profile_name() == "nightly"
"""True in `make nightly`."""


def examples(nightly: int, **options: Any) -> settings:
    """Return the settings of a property test that tries ``nightly`` examples in ``make nightly`` and 20 otherwise.

    Use it as a decorator above ``@given``, in place of ``@settings(max_examples=...)``. The profiles, in `conftest.py`, set
    everything else: no deadline, no database, slow generation is no failure. ``options`` are further settings of Hypothesis.
    """
    usual = settings.get_profile(settings.get_current_profile_name())
    return settings(usual, max_examples=size(min(nightly, usual.max_examples), nightly), **options)


def size(every_run: int, nightly: int) -> int:
    """Return ``nightly`` in ``make nightly`` and ``every_run`` otherwise, as the number of repetitions of a test."""
    return nightly if AT_NIGHT else every_run


OTHER_CASES = pytest.mark.nightly("by day other cases of the same test")
"""Mark of cases that only `make nightly` tries."""
