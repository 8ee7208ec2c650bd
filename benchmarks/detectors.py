"""How well detectors agree with labels, as a table: every preset beside the naive rules and the length of the runs.

Usage: python benchmarks/detectors.py LABELS.csv [FOLDER]
The labels are not shipped. LABELS.csv has the columns run_id (GROUP:NAME), repetition (0 or 1), label_kind, primary (0 or 1),
file (in FOLDER, by default that of the labels) and run_selector (place, task or TASK-TRIAL in a file of several runs). Each run
has one label: its primary row, else that of the single reader or annotator; what the agent said of itself is no label, and the
thoughts in which a Magentic-One orchestrator says whether it is in a loop are left out of its runs.

What detectors cost in a round: run.py. Over a million rounds, in one process and in two: scale.py --only detected.
"""

from __future__ import annotations

import argparse
import csv
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentnb import load_traces
from agentnb.core.log.events import ModelReplied
from agentnb.core.messages import Thinking
from agentnb.detect import Run, presets, score, sweep
from agentnb.detect.presets.default import Default
from agentnb.detect.scores import Labelled, best_length

SELF_REPORT = "machine-self-report"
HUMAN = "human-derived"
SHOWN = ["detector", "group", "runs", "positives", "hits", "false", "misses", "precision", "recall", "f1", "f1_low", "f1_high"]
ALIKE = (70, 75, 80, 85, 90, 95)
_TRIAL = re.compile(r"task(?P<task>\w+)-trial(?P<trial>\w+)")


def labels_of(rows: Iterable[dict[str, str]], *, strict: bool = False) -> dict[str, dict[str, str]]:
    """Return the one label of each run. ``strict``: only primary rows, single readers and single annotators."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["label_kind"] == SELF_REPORT or (
            strict and row["primary"] != "1" and not row["label_kind"].startswith("single")
        ):
            continue
        if row["primary"] == "1" or row["run_id"] not in found:
            found[row["run_id"]] = row
    return found


def run_of(folder: Path, row: dict[str, str], read: dict[str, list[Run]]) -> Run:
    """Return the run that a label is about."""
    if row["file"] not in read:
        read[row["file"]] = [*load_traces(folder / row["file"])]
    runs, selector = read[row["file"]], row["run_selector"]
    if not selector:
        return runs[0]
    trial = _TRIAL.fullmatch(selector)
    for wanted in ("position", "task"):
        for run in runs:
            if run.origin is not None and getattr(run.origin, wanted) == selector:
                return run
    for run in runs:
        if trial and run.origin is not None and (run.origin.task, run.origin.trial) == (trial["task"], trial["trial"]):
            return run
    raise SystemExit(f"No run of {row['file']} is {selector}")


def masked(run: Run) -> Run:
    """Return the run without the thoughts of an orchestrator: its ledger says whether it believes to be in a loop."""
    return Run.from_events([_without_ledger(event) for event in run.events])


def _without_ledger(event: Any) -> Any:
    if not isinstance(event, ModelReplied) or event.message.author != "Orchestrator":
        return event
    parts = tuple(part for part in event.message.parts if not isinstance(part, Thinking))
    return replace(event, message=replace(event.message, parts=parts))


def left_out(runs: list[Run], labels: list[bool], groups: list[str]) -> None:
    """Print what each group gets with the thresholds that are best on all others."""
    print("\nEach group with the thresholds that are best on the others (similarity of texts; number of rounds):")
    total = {"default": [0, 0, 0], "run_length": [0, 0, 0]}
    for group in sorted({*groups}):
        inside = [place for place, name in enumerate(groups) if name == group]
        others = [place for place, name in enumerate(groups) if name != group]
        table = sweep([runs[i] for i in others], [labels[i] for i in others], Default, alike=ALIKE)
        best = int(table.loc[table["f1"].idxmax(), "value"])
        length = best_length([Labelled(runs[i], labels[i]) for i in others])
        mine = sweep([runs[i] for i in inside], [labels[i] for i in inside], Default, alike=[best]).iloc[0]
        by_length = [(len(runs[i].rounds) >= length, labels[i]) for i in inside]
        counts = {
            "default": [int(mine[name]) for name in ("hits", "false", "misses")],
            "run_length": [sum(one == pair for one in by_length) for pair in ((True, True), (True, False), (False, True))],
        }
        for name, each in counts.items():
            total[name] = [a + b for a, b in zip(total[name], each, strict=True)]
        print(f"  {group:12} {len(inside):3} runs: alike={best}: hits, false, misses {counts['default']}; ", end="")
        print(f"from {length} rounds: {counts['run_length']}")
    for name, (hits, false, misses) in total.items():
        print(f"  {name}: hits {hits}, false {false}, misses {misses}, F1 {2 * hits / max(2 * hits + false + misses, 1):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--strict", action="store_true", help="only primary rows, single readers and single annotators")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    import pandas as pd

    pd.set_option("display.width", 200, "display.max_columns", 30, "display.max_rows", 400, "display.precision", 2)
    with asked.labels.open(newline="") as file:
        rows = labels_of(csv.DictReader(file), strict=asked.strict)
    read: dict[str, list[Run]] = {}
    runs = [masked(run_of(asked.folder or asked.labels.parent, row, read)) for row in rows.values()]
    labels = [row["repetition"] == "1" for row in rows.values()]
    groups = [name.partition(":")[0] for name in rows]
    by_run = {run.id: group for run, group in zip(runs, groups, strict=True)}
    print("All runs, and each group by itself:")
    print(score(runs, labels, ["default"], groups=by_run)[SHOWN].to_string(index=False))
    derived = [place for place, row in enumerate(rows.values()) if row["label_kind"] == HUMAN]
    print("\nThe runs with human-derived labels:")
    print(score([runs[i] for i in derived], [labels[i] for i in derived])[SHOWN].to_string(index=False))
    print("\nEvery preset, all runs:")
    table = score(runs, labels, presets.names())
    alarms = ["false_per_100_rounds", "false_per_100_rounds_low", "false_per_100_rounds_high", "rounds_from", "auc"]
    print(table[[*SHOWN[:1], *SHOWN[2:], *alarms]].to_string(index=False))
    print("\nThe similarity from which two replies are the same:")
    swept = sweep(runs, labels, Default, alike=ALIKE)
    print(swept[["value", *SHOWN[4:]]].to_string(index=False))
    left_out(runs, labels, groups)


if __name__ == "__main__":
    main()
