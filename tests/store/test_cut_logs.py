"""Logs cut anywhere, as by a dead process: each whole event is kept, once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from killed_runs import run_in
from property_settings import size

from agentnb import Run, Store, load_trace
from agentnb.core.log import events as e
from agentnb.core.log.wire import encode
from agentnb.errors import TraceError

CUTS = size(60, nightly=300)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_in(tmp_path_factory.mktemp("whole"))


def assert_nothing_twice(run: Run) -> None:
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    for kind, name in ((e.ToolStarted, "call.id"), (e.ToolFinished, "result.call_id"), (e.QuestionAsked, "question.id")):
        outer, inner = name.split(".")
        ids = [getattr(getattr(event, outer), inner) for event in run.events if isinstance(event, kind)]
        assert set(Counter(ids).values()) <= {1}


def test_every_prefix_of_a_log_is_an_interrupted_run(whole: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for count in range(1, len(whole.events) + 1):
        path.write_bytes(b"".join(map(encode, whole.events[:count])))
        run = load_trace(path)
        assert run.events == whole.events[:count]
        assert run.status == ("completed" if count == len(whole.events) else "interrupted")
        assert Store(tmp_path).summaries()[0].status == run.status
        assert_nothing_twice(run)


def test_log_truncated_at_random_bytes_keeps_every_complete_event(whole: Run, tmp_path: Path) -> None:
    data = b"".join(map(encode, whole.events))
    ends = [sum(len(encode(event)) for event in whole.events[: count + 1]) for count in range(len(whole.events))]
    path, dice = tmp_path / "r.jsonl", random.Random(6)
    at_the_ends = [end + by for end in ends for by in (-2, -1, 0, 1) if end + by <= len(data)]
    for cut in at_the_ends + [dice.randrange(ends[0], len(data)) for _ in range(CUTS)]:
        path.write_bytes(data[:cut])
        # An event is whole with all its JSON; only the line end may be missing.
        count = sum(cut >= end - 1 for end in ends)
        if not count:
            with pytest.raises(TraceError, match="contains no complete event"):
                load_trace(path)
            continue
        run = load_trace(path)
        assert run.events == whole.events[:count], cut
        assert run.status == ("completed" if count == len(ends) else "interrupted")
        assert Store(tmp_path).summaries()[0].status == run.status
