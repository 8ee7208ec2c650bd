"""Write the results of comprisk 0.8.0 for fixed data to `comprisk_numbers.json`.

Not a dependency: ``python -m venv /tmp/comprisk && /tmp/comprisk/bin/pip install comprisk==0.8.0``, then run this file with
``/tmp/comprisk/bin/python``.
"""

from __future__ import annotations

import json
from pathlib import Path

import comprisk
import numpy as np

FILE = Path(__file__).with_suffix(".json")
ENDS = ("censored", "loop", "completed")


def drawn(seed: int, runs: int, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rounds, ends and arms of runs."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, rounds + 1, runs), rng.choice(3, runs, p=(0.2, 0.4, 0.4)), rng.integers(0, 2, runs)


def gray_numbers() -> list[dict[str, object]]:
    rows = []
    for seed, runs, rounds in ((1, 60, 8), (2, 40, 25), (3, 200, 12), (4, 30, 3)):
        times, ends, arms = drawn(seed, runs, rounds)
        test = comprisk.gray_test(times, ends, arms, cause=1)
        rows.append(
            {
                "runs": [[int(at), ENDS[end], "ab"[arm]] for at, end, arm in zip(times, ends, arms, strict=True)],
                "score": float(test.score[0]),
                "statistic": test.stat,
                "p_value": test.pvalue,
            }
        )
    return rows


def incidence_numbers() -> list[dict[str, object]]:
    rows = []
    for seed, runs, rounds in ((5, 30, 9), (6, 80, 20)):
        times, ends, _ = drawn(seed, runs, rounds)
        curve = comprisk.CumulativeIncidence().fit(times, ends).curves_[None, 1]
        shares = {int(at): float(share) for at, share in zip(curve.times, curve.cif, strict=True)}
        rows.append({"runs": [[int(at), ENDS[end]] for at, end in zip(times, ends, strict=True)], "shares": shares})
    return rows


if __name__ == "__main__":
    numbers = {"comprisk": comprisk.__version__, "gray": gray_numbers(), "incidence": incidence_numbers()}
    FILE.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
