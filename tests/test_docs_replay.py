"""docs/replay.md is current: its code runs, and it names every column and every attribute."""

from __future__ import annotations

import re
from pathlib import Path

from agentnb import diff, fork_sync, load_trace, replay, survey

TEXT = (Path(__file__).parents[1] / "docs" / "replay.md").read_text(encoding="utf-8")


def test_every_column_of_the_table_is_explained() -> None:
    named = set(re.findall(r"`([a-z_…]+)`", TEXT))
    for column in replay("healthy").table().columns:
        general = re.sub(r"_(recorded|would_be)$", "_…", column)
        assert {column, general} & named, column


def test_documented_fields_of_a_replay_exist() -> None:
    replayed = replay("complex-fails", workflow_mode=True)
    section = TEXT.partition("Columns of `table()`")[0].rpartition("`first_divergence`")
    for name in re.findall(r"`([a-z_]+)`", "".join(section[1:])):
        assert hasattr(replayed, name), name


def test_code_on_the_page_runs() -> None:
    r = replay(load_trace("complex-fails"), workflow_mode=True)
    assert (len(r.table()), r.caught_at) == (7, 4) and r.first_divergence is not None and r.sentence
    run = load_trace("didnt-close-out")
    forked = fork_sync(run, at_round=3, model="simulated:forgetful", guidance="matrix")
    assert diff(run, forked).a is run
    columns = survey([run], guidance=[None, "off"], policy=["matrix", "minimal"], failed=lambda one: True).columns
    assert {"caught", "disturbed", "caught_share_low", "caught_share_high"} <= {*columns}
