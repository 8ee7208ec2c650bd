"""Writes docs/tables.md from the columns of the tables."""

from __future__ import annotations

import inspect
from pathlib import Path

from agentnb import tables

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tables.md"
HEAD = """# Tables

Made by `python tests/tables/tables_page.py`; a test fails when it is out of date.

Each table is a function that takes a run, several, a file, a folder, a glob pattern or a store, and returns a new pandas
data frame. Runs that another product recorded have the same tables. `tables.columns("rounds")` has the columns below as a data
frame; `agentnb table rounds` writes a table as CSV or Parquet.

```python
from agentnb import tables

tables.patterns(".agentnb/runs")  # how often runs complete, follow guidance and fail: the commonest failure first
tables.rounds(run)[["round", "tools_called", "todos_open", "workflow_mode", "went_on"]]
tables.tool_calls(run, arguments=True).filter(like="arguments.")  # a column for each argument, with its values
tables.columns("rounds")[["column", "unit", "meaning"]]
```

- Rounds count from 1, as in cards. `run.rounds[0]` is round 1; in the log, and in the `fields` of `tables.events`, its index
  is 0.
- Tables of folders with many logs are kept beside them, and tables of any size can be queried as DuckDB relations:
  [scale.md](scale.md).
- What is unknown is missing, never 0. Traces of other products do not say how often a call was retried, or whether guidance was
  given: there such counts are missing.
- Counts that may be missing are `Int64`, truth values that may be missing `boolean`, times UTC with microseconds, durations
  seconds.
- A *source* is the field of an event in the log (`model_replied.usage.input`; `event`: of any event), or what agentnb does to
  get it.
- Arguments are JSON text, which can be compared, grouped and exported; `tables.tool_calls(run, arguments=True)` adds their
  values.
"""


EVENTS = """## Events of a turn

The events of a chat's turn, by the names that interfaces give them, and the kinds of our log that they are:

| name | kind | when |
|---|---|---|
| `session` | `run_started` | |
| `ontology_loaded` | `run_started` | a function of its context loaded text about the entity |
| `last_turn_context` | `run_started` | it continues a conversation |
| `agent_state` | | `run.agent_state` changes with the event before it |
| `text` | `model_replied`, `reply_given` | it has text; while it streams, `TextDelta` |
| `tool_call` | `tool_started`, `call_blocked` | not for calls that a tool makes |
| `tool_result` | `tool_finished`, `call_blocked` | likewise |
| `plan_created` | `plan_proposed` | |
| `plan_ready_for_review` | `question_asked` | of kind `plan_review` |
| `plan_review` | `plan_reviewed` | |
| `step_start` | `step_started` | of a plan |
| `step_complete` | `step_finished`, `step_skipped` | of a plan |
| `executor_spawned` | `run_started` | of a nested run |
| `executor_result` | `run_finished` | of a nested run |
| `context_shift` | `context_shifted` | |
| `error` | `error_raised`; `limit_reached` | severity `error`; severity `warning`, and the turn continues |
| `done` | `run_finished` | no error came before; or the log ends while a question is open |

A turn has exactly one end: `done`, or an `error` of severity `error`. All other kinds have no such name. `run.agent_state` is
`thinking`, `executing_tool`, `executing_plan` or `waiting_on_user`: a question wins over a plan, a plan over the tools of its
steps. A text-only reply ends the turn: then it waits for you, also when the run has completed. None before the first
round or step, and after a failure, a stop or an empty reply.
"""


def text() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *map(_section, tables.NAMES), EVENTS])


def _section(name: str) -> str:
    made = inspect.getdoc(getattr(tables, name)) or ""
    told = made.partition("\n\n")[0].removeprefix("Return ").replace("\n", " ")
    rows = [
        f"| `{row.column}` | {row.dtype.replace('datetime64[us, UTC]', 'time')} | {row.unit} | {row.meaning} | {row.source} |"
        for row in tables.columns(name).itertuples()
    ]
    lines = ["| column | type | unit | meaning | source |", "|---|---|---|---|---|", *rows]
    return f"## {name}\n\n{told[:1].upper()}{told[1:]}\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(tables.NAMES)} tables, {len(tables.columns())} columns")
