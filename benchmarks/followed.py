"""How well the ledger of guidance agrees with what personas, and labels by hand, say of the same reminders.

Printed by make scores, before the detectors; alone: python benchmarks/followed.py [FOLDER] [--seeds 400]
A persona that is about to make a mistake, and is asked in the reminder to do what is right, heeds it or not, and its reply says
which. A reminder of that round is followed according to the ledger, or not. Agreement is the share of reminders of which both
say the same, for each kind and persona; seeds are added until each pair that occurs has 20. `pretender` was kept out: its
mistakes were written after the first form of the rules. FOLDER: runs with labels of reminders (`agentnb.label`).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from agentnb import Agent, load_traces
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.detect import Run
from agentnb.detect.intervals import wilson
from agentnb.errors import TraceError
from agentnb.models.model import Reply, StreamItem
from agentnb.models.simulated.observation import Observation
from agentnb.models.simulated.personas import PERSONAS
from agentnb.models.simulated.planner import READ, Move, next_move, todo_call
from agentnb.models.simulated.simulated_model import SimulatedModel
from agentnb.policies import Matrix
from agentnb.store.run_labels import FILE, read_labels

ENOUGH = 20
"""Reminders of a kind and a persona from which on their agreement counts."""
MIN_SEEDS = 40
KEPT_OUT = "pretender"
SETTINGS: Sequence[dict[str, Any]] = (
    {},
    {"policy": Matrix(workflow_mode=True)},
    {"todos": False},
    {"todos": False, "policy": Matrix(workflow_mode=True)},
)
STEPS = (
    'Load the sales with `load("sales.csv")`',
    'Count them with `count("sales.csv")`',
    'Load the returns with `load("gone-1.csv")`',
    'Load those of May with `load("gone-2.csv")`',
    'Load those of June with `load("gone-3.csv")`',
    'Load those of July with `load("gone-4.csv")`',
    'Count the stock with `count("stock.csv")`',
    'Send the report with `send("ann")`',
    'Send it to Bo with `send("bo@x.org")`',
)
"""What personas do; some of it fails."""


class Verdicts(NamedTuple):
    """What two sides say of a reminder."""

    kind: str
    who: str
    heeded: bool
    followed: bool


def load(path: str) -> str:
    """Load a table."""
    if path.startswith("gone"):
        raise FileNotFoundError(f"no file {path}")
    return f"table of {len(path)} rows"


def count(path: str) -> int:
    """Count the rows of a table."""
    return len(path)


def send(to: str) -> str:
    """Send the report."""
    if "@" not in to:
        raise ValueError(f"not an address: {to}")
    return f"sent to {to}"


class Pretender(SimulatedModel):
    """Makes mistakes that no persona of the package makes; heeds each reminder with the usual probability.

    It completes a todo without its work, makes the calls of its first step again, adds a todo instead of working, or says
    something short. A reminder asks for what is right whenever there is one, unless that is to read the list.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self._seed = seed

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the right move, or a mistake."""
        seen = Observation(request)
        move, metadata = next_move(seen), dict[str, Any]()
        draw = Random(f"{self._seed}:{seen.turn}")
        applies = move.kind in ("step", "close", "review") and move.calls != (READ,)
        wrong = self._wrong(seen, draw) if applies and draw.random() < 0.5 else None
        if wrong is not None:
            heeded = draw.random() < 0.7 if seen.reminder else None
            move = move if heeded else wrong
            metadata = {"persona": KEPT_OUT, "fault": wrong.kind, "asked": bool(seen.reminder), "heeded": heeded}
        message = Message("assistant", (Text(move.text), *move.calls))
        yield Reply(message, self.used_until_cut(request, message), metadata=metadata)

    def _wrong(self, seen: Observation, draw: Random) -> Move | None:
        open_entries = [entry for entry in seen.own.values() if entry.is_open]
        moves = [Move("talk", draw.choice(["On it.", "Good so far.", "One moment.", "It goes well."]))]
        if open_entries:
            entry = open_entries[-1]
            marks = [{"id": entry.id, "status": status} for status in ("in-progress", "completed")]
            moves.append(Move("close", "That is done.", tuple(todo_call("update", todoUpdates=[mark]) for mark in marks)))
            moves.append(Move("planning", "One more.", (todo_call("add", newTodos=[{"title": f"Look again {seen.turn}"}]),)))
        if len(seen.made) > 1:
            moves.append(Move("again", "From the start.", seen.steps[seen.made[0]].calls))
        return draw.choice(moves)


def run_of(who: str, seed: int) -> Run:
    """Return the run of a persona: some of the steps, in a setting that the seed chooses."""
    draw = Random(seed)
    steps = draw.sample(STEPS, draw.randint(3, len(STEPS)))
    model = Pretender(seed) if who == KEPT_OUT else SimulatedModel(who, seed=seed)
    agent = Agent(model, tools=[load, count, send], max_rounds=40, **SETTINGS[seed % len(SETTINGS)])
    return agent.run_sync("Do this:\n" + "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)))


def recorded(run: Run, who: str) -> Iterator[Verdicts]:
    """Yield the reminders of which the persona recorded whether it heeded them."""
    for one in run.rounds:
        heeded = one.metadata.get("heeded")
        for given, verdict in zip(one.guidance, one.followed, strict=False):
            if heeded is not None and verdict.followed is not None:
                yield Verdicts(given.cell, who, heeded, verdict.followed)


def of_persona(who: str, seeds: int) -> list[Verdicts]:
    """Return the reminders of a persona, of so many seeds that each kind that occurs has enough, or of all of them."""
    found: list[Verdicts] = []
    for seed in range(seeds):
        found += recorded(run_of(who, seed), who)
        kinds = Counter(one.kind for one in found)
        if seed + 1 >= MIN_SEEDS and min(kinds.values(), default=ENOUGH) >= ENOUGH:
            break
    return found


def labelled(folder: Path) -> Iterator[Verdicts]:
    """Yield the reminders of runs in a folder that somebody labelled with ``label(FOLDER, followed=True)``."""
    for path in sorted(folder.rglob(FILE)):
        with suppress(TraceError):  # labels of runs, in columns of their own
            marks = [one for one in read_labels(path) if one.reminder and one.label in (0, 1)]
            runs = {run.id: run for run in load_traces(path.parent)} if marks else {}
            for one in marks:
                number, place = map(int, one.reminder.split("."))
                judged = runs[one.run_id].rounds[number - 1] if one.run_id in runs else None
                verdict = judged.followed[place - 1].followed if judged is not None else None
                if judged is not None and verdict is not None:
                    yield Verdicts(judged.guidance[place - 1].cell, one.who or "by hand", one.label == 1, verdict)


def table(found: Sequence[Verdicts]) -> str:
    """Return a line for each kind of guidance and persona: how often both say the same, and what each calls followed."""
    import pandas as pd

    rows = []
    for kind, who in sorted({(one.kind, one.who) for one in found}):
        own = [one for one in found if (one.kind, one.who) == (kind, who)]
        same = wilson(sum(one.heeded == one.followed for one in own), len(own))
        few = "" if len(own) >= ENOUGH else "few"
        rows.append(
            {
                "kind": kind,
                "who": who,
                "reminders": len(own),
                "heeded": sum(one.heeded for one in own),
                "followed": sum(one.followed for one in own),
                "agreement": f"{same.value:.2f} ({same.low:.2f}-{same.high:.2f})",
                "": few,
            }
        )
    return str(pd.DataFrame(rows).to_string(index=False)) if rows else "There is no reminder with a label"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="runs with labels of reminders")
    parser.add_argument("--seeds", type=int, default=400, help="the most seeds of a persona")
    asked = parser.parse_args(given)
    print("Whether guidance was followed: the ledger beside what personas recorded of themselves")
    print(table([one for who in (*PERSONAS, KEPT_OUT) for one in of_persona(who, asked.seeds)]))
    if asked.folder is not None:
        print("\nThe ledger beside labels by hand")
        print(table([*labelled(asked.folder)]))


if __name__ == "__main__":
    main()
