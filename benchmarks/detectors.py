"""Agreement of the detectors of `default` with labels: each set beside the best naive rule and the length of its runs.

Usage: make scores TRACES=FOLDER, or: python benchmarks/detectors.py FOLDER [--part train|apart] [--sure] [--details]
Labels are not shipped. FOLDER, or a folder in it, has a labels.csv with the columns run_id (SET:NAME), repetition (0 or 1),
label_kind, primary (0 or 1), confidence, file (beside the labels) and run_selector (place, task or TASK-TRIAL in a file of
several runs). Each run has one label: its primary row, else that of the single reader or annotator; what the agent said of
itself is no label, and the thoughts in which a Magentic-One orchestrator says whether it is in a loop are left out of its runs.

A third of the runs is kept apart, by a number of the run's name: choose thresholds with --part train, and look at --part apart
when nothing is chosen any more. The naive rule and the number of rounds are those with the best F1 in the set itself, which
flatters both. An alarm is a loop, a stall or a limit found in a run that is labelled healthy.

The cost of detectors per round: run.py. Over a million rounds, in one process and in two: scale.py --only detected.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import tomllib
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from agentnb import load_traces
from agentnb.core.log.events import ModelReplied
from agentnb.core.messages import Thinking
from agentnb.detect import Run, findings, presets, score, sweep
from agentnb.detect.intervals import wilson
from agentnb.detect.presets.default import Default
from agentnb.detect.scores import ALL, RUN_LENGTH, Labelled, best_length

SELF_REPORT = "machine-self-report"
HUMAN = "human-derived"
SHOWN = ["detector", "group", "runs", "positives", "hits", "false", "misses", "precision", "recall", "f1", "f1_low", "f1_high"]
ALIKE = (70, 75, 80, 85, 90, 95)
WHAT_TO_GIVE = "Give a folder of labelled traces: make scores TRACES=FOLDER. It, or a folder in it, has a labels.csv"
CHOSEN = Path(__file__).with_name("chosen.toml")
SURE = ", sure"
PARTS = 3
"""Denominator of the share that is kept apart."""
_TRIAL = re.compile(r"task(?P<task>\w+)-trial(?P<trial>\w+)")


class LabelledRun(NamedTuple):
    """A run with its label and the set that it belongs to."""

    run: Run
    is_positive: bool
    set: str
    kind: str
    """The kind of its label."""
    is_sure: bool
    """True if the labeller was sure."""


def part_of(run_id: str) -> str:
    """Return the part that a labelled run belongs to: train, or apart. Its name alone decides."""
    return "train" if zlib.crc32(run_id.encode()) % PARTS else "apart"


def labelled_runs(traces: str, *, part: str = ALL, strict: bool = False, sure: bool = False) -> list[LabelledRun]:
    """Return the labelled runs of a folder, or of one file of labels. Exits with a usage hint if there are no labels."""
    place = Path(traces)
    if not traces or not place.exists():
        raise SystemExit(f"{traces!r} is no folder. {WHAT_TO_GIVE}" if traces else WHAT_TO_GIVE)
    found = []
    files = sorted(place.rglob("labels.csv")) if place.is_dir() else [place]
    for path in files:
        with path.open(newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            if "repetition" not in (table.fieldnames or ()):
                continue  # labels of reminders, which the ledger is held against
            rows = labels_of(table, strict=strict)
        read: dict[str, list[Run]] = {}
        for run_id, row in rows.items():
            is_sure = row.get("confidence") == "high"
            if part not in (ALL, part_of(run_id)) or (sure and not is_sure):
                continue
            run, name = masked(run_of(path.parent, row, read)), run_id.partition(":")[0]
            found.append(LabelledRun(run, row["repetition"] == "1", name, row["label_kind"], is_sure))
    if not (found or files):
        raise SystemExit(f"{traces} has no labelled run. {WHAT_TO_GIVE}")
    return found


def chosen() -> dict[str, Any]:
    """Return the sets that the thresholds were chosen on, and the date."""
    return tomllib.loads(CHOSEN.read_text("utf-8"))


def thresholds() -> dict[str, Any]:
    """Return the thresholds of `default` now, as the file has them."""
    return {
        rule: {name: _plain(value) for name, value in own.items() if value is not None}
        for rule, own in Default().thresholds.items()
    }


def _plain(value: Any) -> Any:
    return {str(key): word for key, word in value.items()} if isinstance(value, dict) else value


def when_chosen() -> str:
    """Return the sentence on the thresholds: those of the file, or which differ."""
    file, now = chosen(), thresholds()
    changed = [rule for rule in {**now, **file["thresholds"]} if now.get(rule) != file["thresholds"].get(rule)]
    when = f"The thresholds of `default` were chosen on {file['date']} with the sets that are in view"
    return f"{when}, except those of {', '.join(changed)}: {CHOSEN.name} has others" if changed else when


def table_of_sets(runs: Sequence[LabelledRun]) -> str:
    """Return a line for each set, and for its sure labels if it also has others: found, missed, alarms, and the baselines."""
    import pandas as pd

    sets = [*dict.fromkeys(sorted(one.set for one in runs))]
    groups = [(name, [one for one in runs if one.set == name]) for name in sets]
    rows = []
    for name, group in [*groups, *([(ALL, [*runs])] if len(sets) > 1 else [])]:
        rows.append(_row_of_set(name, group))
        sure = [one for one in group if one.is_sure]
        if 0 < len(sure) < len(group):
            rows.append(_row_of_set(f"{name}{SURE}", sure))
    return str(pd.DataFrame(rows).to_string(index=False))


def _row_of_set(name: str, group: Sequence[LabelledRun]) -> dict[str, str]:
    known = chosen()["sets"]
    table = score([one.run for one in group], [one.is_positive for one in group])
    ours, length = table.iloc[0], table[table["detector"] == RUN_LENGTH].iloc[0]
    naive = table[table["kind"] == "naive"].fillna({"f1": -1.0}).sort_values("f1", ascending=False, kind="stable").iloc[0]
    healthy = len(group) - int(ours["positives"])
    has_loops = bool(ours["positives"])
    return {
        "set": name,
        "in view": "" if name.startswith(ALL) else "yes" if name.removesuffix(SURE) in known else "no",
        "runs": str(len(group)),
        "found": f"{ours['hits']} of {ours['positives']}" if has_loops else "",
        "F1 of default": _f1_of(ours) if has_loops else "",
        "alarms": f"{ours['false']} of {healthy}",
        "alarms in 100 healthy": _of_hundred(int(ours["false"]), healthy),
        "best naive rule": f"{naive['detector'].removeprefix('naive_')} {_f1_of(naive)}" if has_loops and naive["hits"] else "",
        "run length": f"{_f1_of(length)} from {length['rounds_from']}" if has_loops else "",
    }


def table_of_rules(runs: Sequence[LabelledRun]) -> str:
    """Return a line for each rule of `default`: in how many runs with a loop and healthy runs it finds something."""
    import pandas as pd

    counts: Counter[tuple[str, str, bool]] = Counter()
    for one in runs:
        counts.update({(each.family, each.rule, one.is_positive) for each in findings(one.run)})
    loops = sum(one.is_positive for one in runs)
    rows = [
        {
            "rule": rule,
            "family": family,
            f"of {loops} with a loop": counts[family, rule, True],
            f"of {len(runs) - loops} healthy": counts[family, rule, False],
            "in 100 healthy": _of_hundred(counts[family, rule, False], len(runs) - loops),
        }
        for family, rule in sorted({key[:2] for key in counts})
    ]
    return str(pd.DataFrame(rows).to_string(index=False)) if rows else "Nothing was found"


def _f1_of(row: Any) -> str:
    return _with_interval(row["f1"], row["f1_low"], row["f1_high"])


def _of_hundred(part: int, whole: int) -> str:
    share = wilson(part, whole)
    return "" if share.value is None else _with_interval(*[100 * (one or 0.0) for one in share], digits=0)


def _with_interval(value: float, low: float, high: float, digits: int = 2) -> str:
    return f"{value:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def labels_of(rows: Iterable[dict[str, str]], *, strict: bool = False) -> dict[str, dict[str, str]]:
    """Return the single label of each run. ``strict``: only primary rows, single readers and single annotators."""
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


def details(found: Sequence[LabelledRun]) -> None:
    """Print every preset, each group beside every baseline, and what other thresholds would give."""
    runs, labels, groups = [one.run for one in found], [one.is_positive for one in found], [one.set for one in found]
    by_run = {run.id: group for run, group in zip(runs, groups, strict=True)}
    print("\nAll runs, and each set by itself:")
    print(score(runs, labels, ["default"], groups=by_run)[SHOWN].to_string(index=False))
    derived = [one for one in found if one.kind == HUMAN]
    if derived:
        print("\nThe runs with human-derived labels:")
        print(score([one.run for one in derived], [one.is_positive for one in derived])[SHOWN].to_string(index=False))
    print("\nEvery preset, all runs:")
    table = score(runs, labels, presets.names())
    alarms = ["false_per_100_rounds", "false_per_100_rounds_low", "false_per_100_rounds_high", "rounds_from", "auc"]
    print(table[[*SHOWN[:1], *SHOWN[2:], *alarms]].to_string(index=False))
    print("\nThe similarity from which two replies are the same:")
    swept = sweep(runs, labels, Default, alike=ALIKE)
    print(swept[["value", *SHOWN[4:]]].to_string(index=False))
    left_out(runs, labels, groups)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="?", default="", help="the folder of labelled traces, or one file of labels")
    parser.add_argument("--part", choices=(ALL, "train", "apart"), default=ALL, help="the part of the runs that is scored")
    parser.add_argument("--sure", action="store_true", help="only labels of high confidence")
    parser.add_argument("--strict", action="store_true", help="only primary rows, single readers and single annotators")
    parser.add_argument("--details", action="store_true", help="every preset and baseline too, and other thresholds")
    asked = parser.parse_args(given)
    warnings.simplefilter("ignore")
    import pandas as pd

    pd.set_option("display.width", 200, "display.max_columns", 30, "display.max_rows", 400, "display.precision", 2)
    if not (found := labelled_runs(asked.traces, part=asked.part, strict=asked.strict, sure=asked.sure)):
        print("No label is about repetition.")
        return
    print(table_of_sets(found))
    print(f"\n{when_chosen()}.")
    print("\nThe rules of `default`:")
    print(table_of_rules(found))
    if asked.details:
        details(found)


if __name__ == "__main__":
    import followed

    followed.main([one for one in sys.argv[1:2] if one and Path(one).is_dir()])
    print("\nAgreement of the detectors of `default` with labels")
    main()
