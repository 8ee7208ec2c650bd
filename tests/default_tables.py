"""Writes the tables of numbers in the docs from the defaults of the rooms: ``python tests/default_tables.py``."""

from __future__ import annotations

import re
from pathlib import Path

from agentnb.context.defaults import KEEP_RECENT, RESULT_CHARACTERS, SHARE
from agentnb.context.history_settings import find_history
from agentnb.display import defaults as shown
from agentnb.interchange.archives import MAX_MEMBERS
from agentnb.interchange.yaml_text import MAX_YAML_BYTES, MAX_YAML_TOKENS
from agentnb.store import bounds
from agentnb.tools.defaults import MAX_COLUMNS, MAX_ROWS

DOCS = Path(__file__).resolve().parents[1] / "docs"


def tables() -> dict[str, str]:
    """Return the table of each page, under its first line."""
    documented = find_history("documented")
    return {
        "card.md": f"""| shown | at most | all of it |
|---|---|---|
| a tool's result or argument | {shown.MAX_AT_ONCE:,} characters, beginning and end | the button, or the Python expression, \
under it |
| a table | {MAX_ROWS} rows, {MAX_COLUMNS} columns | call the function yourself |
| prompts, text of the model; thinking | {shown.MAX_OF_A_TEXT:,}; {shown.MAX_OF_THINKING:,} characters | `run.prompt`, \
`run.rounds[2].text`; `run.rounds[2].reply` |
| pictures in the saved form | {size(shown.MAX_OF_PICTURES)}, the last ones | the page |
| rounds in the saved form | {size(shown.MAX_ROUND_BYTES)} of HTML, the last ones | `%agent load ID`, then the page |
| what the model saw, in the saved form | {size(shown.MAX_REQUEST_BYTES)}: the first round and the last ones; of a result \
{shown.MAX_OF_A_SENT_RESULT} characters, of other words {shown.MAX_OF_A_SENT_TEXT:,} | the live card, the page |
""",
        "limits.md": f"""| name | what it does |
|---|---|
| `auto` (default) | compacts a conversation above {SHARE:.0%} of the model's window, keeps the last {KEEP_RECENT} messages; \
truncates results above {RESULT_CHARACTERS:,} characters |
| `documented` | compacts above {documented.compact_above} messages and sends {documented.max_messages} at most, however short \
they are; truncates results likewise |
| `full` | sends everything |
| a variable with `History(compact_above=60, keep_recent=20)` | what you choose: [its \
settings](reference.md#settings-of-a-history) |
""".replace("80%", "80 %"),
        "traces.md": f"""| what | bound |
|---|---|
| a run, a document, a log, a page | {size(bounds.MAX_HELD_BYTES)}, and above {size(bounds.UNCOUNTED_BYTES)} \
{bounds.MAX_HELD_VALUES:,} JSON values |
| a run | {bounds.MAX_RUN_EVENTS:,} events, about {bounds.MAX_RUN_EVENTS // 5:,} rounds with a call each; \
{bounds.MAX_ROUND_CALLS:,} calls in one reply; {bounds.MAX_MESSAGES_IN_A_ROW:,} replies, or user messages, in a row |
| files read a run at a time (`iter_traces`): JSON Lines with a run a line; Inspect, tau-bench, tau2-bench, ShareGPT \
| {size(bounds.MAX_STREAMED_BYTES)}; a document {size(bounds.MAX_FILE_BYTES)}, a record {size(bounds.MAX_RECORD_BYTES)}; \
{bounds.MAX_RECORDS:,} records |
| a zip or gzip file | {bounds.MAX_EXPANSION} times its size or {size(bounds.MIN_EXPANDED_BYTES)}, if that is more; \
{MAX_MEMBERS:,} files; archives in archives three deep |
| YAML | {size(MAX_YAML_BYTES)} and {MAX_YAML_TOKENS:,} tokens: write more as JSON |
""",
    }


def size(number: int) -> str:
    """Format a number of bytes for the docs."""
    power, unit = next((power, unit) for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "KB")) if number >= 10**power)
    return f"{number // 10**power} {unit}"


def stale() -> list[str]:
    """Return the pages whose table differs from the defaults."""
    return [page for page, table in tables().items() if table not in (DOCS / page).read_text(encoding="utf-8")]


if __name__ == "__main__":
    for page in stale():
        file, table = DOCS / page, tables()[page]
        head = re.escape(table.partition("\n")[0])
        lines = table.count("\n")
        old = rf"(?m)^{head}\n(?:\|.*\n){{{lines - 1}}}"
        file.write_text(re.sub(old, lambda _, new=table: new, file.read_text(encoding="utf-8"), count=1), encoding="utf-8")
        print(f"docs/{page}")
