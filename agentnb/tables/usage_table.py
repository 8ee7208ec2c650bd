"""The table of usage: one row per model call, with its purpose, attempts, usage and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import fold_events
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.model_call_rows import NESTED, Call, model_calls
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: list[Column[Call]] = columns_of(
    "usage",
    {
        "conversation": lambda call: call.conversation or call.run.conversation,
        "model": lambda call: None if call.nested_run or call.operation == CLARIFY_BLANK else call.model or call.run.model,
        "answered_by": lambda call: _answered_by(call.metadata),
        "attempts": lambda call: None if _is_untold(call) else call.attempts,
        "waited": lambda call: None if _is_untold(call) else call.waited,
        "seconds": lambda call: call.seconds if call.replied else None,
    },
)


def _is_untold(call: Call) -> bool:
    """True if the number of attempts is unknown: in other products' traces, and in rows that sum up calls."""
    return call.nested_run is not None or (call.run.origin is not None and not call.retries)


def _rows(run: RunFacts) -> Iterator[Call]:
    """Yield the model calls of a run, and one row for each nested run."""
    yield from model_calls(run)
    for run_id, nested in run.nested_usage.items():
        if run_id:  # earlier versions logged no id
            yield Call(run, None, NESTED, None, usage=nested.usage, nested_run=run_id)


def _answered_by(metadata: Mapping[str, Any]) -> str | None:
    name = metadata.get("model")
    return name if isinstance(name, str) and name else None


_REPLY = ["response_id", "input_tokens", "output_tokens"]
"""Columns that are equal in all copies of a reply; the id is not enough, since some servers give all replies the same id."""
TABLE = Table("usage", COLUMNS, _rows, fold_events)


def usage(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per model call, in order, including failed ones.

    A nested run's calls are rows of its own log; if that is not read, one row of the outer run sums them up. A reply copied
    into forked and resumed sessions appears only in the first of them, so that sums count each call once.
    """
    calls = frame_of(source, TABLE, cache)
    nested, run_ids = calls["nested_run"], calls["run_id"].unique()
    is_twice = is_copy(calls, run_ids) | (nested.notna() & (nested.isin(run_ids) | nested.duplicated()))
    return calls[~is_twice].reset_index(drop=True) if is_twice.any() else calls


def is_copy(calls: pd.DataFrame, run_ids: Sequence[str]) -> pd.Series:
    """Return a mask of the calls that repeat other rows. ``run_ids``: the runs being read."""
    identified = calls[calls["response_id"].notna()]
    replies = identified.groupby(_REPLY, dropna=False)
    is_later = (identified["run_id"] != replies["run_id"].transform("first")) | identified.duplicated(
        [*_REPLY, "run_id", "round"]
    )
    return calls["copied_from"].isin(run_ids) | calls.index.isin(identified.index[is_later])
