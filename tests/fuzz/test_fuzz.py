"""A small sample of the night's files: damaged and hostile traces and logs are read, or refused with a word."""

from __future__ import annotations

from pathlib import Path

import driver
import pytest
import traces
from property_settings import size

QUICK = 60
"""Files of every run; `make nightly` checks 10,000 in processes of their own (`driver.py`)."""


def test_damaged_and_hostile_files_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_SAMPLE_BYTES", 4_000)
    monkeypatch.setattr(traces, "RECORDED", tmp_path / "none")
    monkeypatch.setattr(traces, "MAX_RUNS_SHOWN", 0)
    traces.samples.cache_clear()
    failed = []
    for seed in range(size(QUICK, nightly=QUICK)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        result = driver.check_file(traces, "traces", seed, folder)
        failed += [result] if result.verdict in driver.FAILURES else []
    traces.samples.cache_clear()
    assert not failed


def test_waiting_worker_counts_as_idle_but_slow_one_does_not() -> None:
    limit, share = driver.MAX_WAITED_SECONDS, driver.MIN_SECONDS / driver.MAX_WAITED_SECONDS
    for rate, hangs in ((0.0, True), (share / 2, True), (share * 1.5, False), (1.0, False)):
        idle = driver.Idle(7.0, 100.0)
        waited = [idle.clock_seconds(7.0 + rate * second, 100.0 + second) for second in range(int(2 * limit))]
        assert (max(waited) > limit) is hangs
