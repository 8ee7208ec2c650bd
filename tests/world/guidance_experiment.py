"""An experiment on a real language model: does a reminder to be brief make answers brief?

    python tests/world/guidance_experiment.py             all tasks
    python tests/world/guidance_experiment.py --tasks 12  the first ones, where a machine is busy

SmolLM2 (135 million parameters) is too small to make tool calls, and small enough for two cores. Whatever comes of it is what
``docs/evidence.md``, which this writes, says.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [path for path in (str(FOLDER), str(FOLDER.parents[1])) if path not in sys.path]

from environments import environment_of  # noqa: E402  # found beside this file
from local_model import served  # noqa: E402
from try_counterparts import counterparts  # noqa: E402

from agentnb import Experiment, GuidanceSet, compare  # noqa: E402
from agentnb.detect.run import Run  # noqa: E402

MODEL = "llama.cpp, SmolLM2 135M"
PAGE = FOLDER.parents[1] / "docs/evidence.md"
TOPICS = """
fruits, rivers, planets, colours, metals, birds, trees, flowers, cities in France, countries in Africa, oceans, mountains,
vegetables, spices, fish, insects, mammals, reptiles, musical instruments, composers, painters, writers, sports, board games,
dances, languages, kinds of bread, kinds of cheese, soups, drinks, desserts, pieces of furniture, rooms of a house,
parts of a car, kinds of boats, kinds of weather, school subjects, chemical elements, shapes, units of length, gemstones,
fabrics, pieces of clothing, jobs in a hospital, animals on a farm, pets, lakes, islands, explorers, scientists
"""
"""Fifty topics, one for each task.

Tried before: a list of three lines as the outcome, in which variants differed in none of the 50 tasks; and for this outcome and
reminder one run of each variant on another topic, bridges, to set the bound of tokens.
"""
MAX_WORDS = 20
BRIEF = GuidanceSet("brief", {"note": "Answer in one short sentence of at most ten words."})
VARIANTS = {"off": "off", "matrix": "matrix", "brief": BRIEF}
"""Nothing at the end of the request; only the number of the round, which says nothing of the answer; the wanted length."""


def is_brief(run: Run) -> bool:
    """Return whether an answer has at most 20 words: one that is cut at 64 tokens has more."""
    return 0 < len(run.text.split()) <= MAX_WORDS


def tasks(number: int | None) -> list[dict[str, str]]:
    """Return the first tasks: rows of an experiment."""
    topics = [topic.strip() for topic in TOPICS.split(",")][:number]
    return [{"id": topic, "prompt": f"Tell me about {topic}."} for topic in topics]


def main() -> int:
    """Make the runs, print the comparisons, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=0)
    given = parser.parse_args()
    (row,) = counterparts([MODEL])
    with served(row, environment_of(row)) as models:
        experiment = Experiment(
            tasks(given.tasks or None),
            VARIANTS,
            f"{models['Chat']}&max_tokens=64&price=0",
            agent={"max_rounds": 2, "system": "You answer questions.", "instructions": False, "todos": False},
            primary=is_brief,
            folder=False,
            places=1,
        )
        results = experiment.run_sync()
    print(compare(results))
    print(results.report(PAGE))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", PAGE], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
