"""The cost of a live card, as ratios within one run: a frame must not cost more in a long run than in a short one.

Usage: python benchmarks/card.py
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from agentnb import Agent, ToolCall
from agentnb.core.log.events import AnyEvent, Delta, Event, RoundFinished, TextDelta
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.models import ScriptedModel

EARLY, LATE = 30, 300
TIMES = 15
TEXT = "The quick brown fox jumps over the lazy dog. " * 22


def look(number: int) -> dict[str, int]:
    """Look something up."""
    return {"number": number}


def story(rounds: int) -> list[AnyEvent | Delta]:
    """Notices to the watcher of a run of so many rounds, each with a text of 1 kB and a tool call."""
    replies = [[f"{number}. {TEXT}", ToolCall("look", {"number": number})] for number in range(rounds - 1)]
    told: list[AnyEvent | Delta] = []
    agent = Agent(
        ScriptedModel([*replies, "Done."]), tools=[look], policy="minimal", guidance="off", max_rounds=rounds, todos=False
    )
    agent.run_sync("Go.", watch=told.append)
    return told


def card_after(told: list[AnyEvent | Delta], rounds: int) -> LiveCard:
    """The card when so many rounds have been finished, all of it sent."""
    card = LiveCard()
    for item in told:
        card.take(item)
        if isinstance(item, RoundFinished) and len(card.run.rounds) == rounds:
            break
    card.frame()
    return card


def median(work: Callable[[], object]) -> float:
    """Seconds it takes."""
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def frame(card: LiveCard) -> float:
    """A frame in which the last round has changed."""
    last = len(card.run.rounds) - 1

    def work() -> None:
        card._stale.add(last)
        card.frame()

    return median(work)


def deltas(card: LiveCard) -> float:
    """A word of a reply, taken in and sent."""

    def work() -> None:
        card.take(TextDelta("word "))
        card.frame()

    return median(work)


def static(told: list[AnyEvent | Delta]) -> float:
    """The saved form of the run, a round."""
    run = Run.from_events([item for item in told if isinstance(item, Event)])
    run_html(run)
    gc.collect()
    return min(median(lambda: run_html(run)) for _ in range(1)) / len(run.rounds)


def main() -> None:
    """Print the ratios."""
    short, long = story(EARLY + 1), story(LATE + 1)
    early, late = card_after(long, EARLY), card_after(long, LATE)
    print(f"a frame after {LATE} rounds, over one after {EARLY}: {frame(late) / frame(early):.2f}")
    print(f"a word after {LATE} rounds, over one after {EARLY}: {deltas(late) / deltas(early):.2f}")
    print(f"the saved form, a round of {LATE}, over a round of {EARLY}: {static(long) / static(short):.2f}")


if __name__ == "__main__":
    main()
