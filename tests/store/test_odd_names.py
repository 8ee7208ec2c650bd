"""Impossible names of folders and files: refused at once, in words of agentnb."""

from __future__ import annotations

import pytest

from agentnb import Store, load_trace, load_traces, tables
from agentnb.errors import StoreError, TraceError

NAMES = ("a\x00b", "\ud800", "runs/\x00", "~nobody-has-this-name/runs")


def test_store_with_an_invalid_folder_name_is_refused(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=ascii(name)):
            with pytest.raises(StoreError, match="cannot be a folder of runs") as caught:
                Store(name)
            assert str(caught.value).isprintable() and "Store('runs')" in caught.value.hint


def test_log_with_an_invalid_file_name_is_refused(subtests: pytest.Subtests) -> None:
    for name in NAMES[:3]:
        for load in (load_trace, load_traces, tables.runs):
            with subtests.test(load.__name__, name=ascii(name)), pytest.raises((StoreError, TraceError)) as caught:
                load(name)
            assert str(caught.value).isprintable()
