"""An experiment on a real language model: does a reminder of the wanted form change the form of an answer?

    python tests/world/guidance_experiment.py            all tasks; writes ``docs/evidence.md``
    python tests/world/guidance_experiment.py --tasks 8  a few, and writes nothing

SmolLM2 (135 million parameters) is too small to make tool calls, and small enough for two cores: 150 runs of one round take
some ten minutes. Whatever comes of it is what the page says.
"""

from __future__ import annotations

import argparse
import re
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
"""Fifty topics, of which a task asks for three examples each."""
FORM = "Answer with a numbered list of three lines: 1., 2. and 3. Write nothing before or after the list."
VARIANTS = {"off": "off", "matrix": "matrix", "form": GuidanceSet("form", {"note": FORM})}
"""Nothing at the end of the request; only the number of the round; the wanted form once more."""


def is_list_of_three(run: Run) -> bool:
    """Return whether an answer has the form that its task asks for: three numbered lines, and nothing else."""
    lines = [line.strip() for line in run.text.splitlines() if line.strip()]
    return len(lines) == 3 and all(re.match(rf"{number}\. \S", line) for number, line in enumerate(lines, 1))


def tasks(number: int | None) -> list[dict[str, str]]:
    """Return the first tasks: rows of an experiment."""
    topics = [topic.strip() for topic in TOPICS.split(",")][:number]
    return [
        {"id": topic, "prompt": f"Name three {topic}. Write a numbered list of three lines and nothing else."}
        for topic in topics
    ]


def main() -> int:
    """Make the runs, print the comparisons, and write the report of all tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=0)
    given = parser.parse_args()
    (row,) = counterparts([MODEL])
    with served(row, environment_of(row)) as models:
        experiment = Experiment(
            tasks(given.tasks or None),
            VARIANTS,
            f"{models['Chat']}&max_tokens=64",
            agent={"max_rounds": 2, "system": "You answer questions.", "instructions": False},
            primary=is_list_of_three,
            folder=False,
            places=1,
        )
        results = experiment.run_sync()
    print(compare(results))
    if not given.tasks:
        print(results.report(PAGE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
