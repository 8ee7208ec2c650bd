"""Write the results of pingouin 0.7.0 for fixed data to `pingouin_numbers.json`.

Not a dependency: ``python -m venv /tmp/pingouin && /tmp/pingouin/bin/pip install pingouin==0.7.0``, then run this file with
``/tmp/pingouin/bin/python``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pingouin

FILE = Path(__file__).with_suffix(".json")


def equivalence_numbers() -> list[dict[str, object]]:
    rng = np.random.default_rng(29)
    rows = []
    for tasks, shift, margin in ((30, 0.0, 0.1), (35, 0.05, 0.1), (60, -0.02, 0.05), (40, 0.3, 0.1)):
        b = rng.normal(0.5, 0.2, tasks).round(3)
        a = (b + rng.normal(shift, 0.15, tasks)).round(3)
        table = pingouin.tost(a, b, bound=margin, paired=True)
        rows.append({"a": a.tolist(), "b": b.tolist(), "margin": margin, "p_value": float(table.at["TOST", "pval"])})
    return rows


def correlation_numbers() -> list[dict[str, object]]:
    rng = np.random.default_rng(30)
    rows = []
    for tasks, repeats, between in ((12, 3, 0.5), (40, 2, 1.0), (20, 5, 0.0)):
        values = (rng.normal(0, between, (tasks, 1)) + rng.normal(0, 0.5, (tasks, repeats))).round(3)
        frame = pd.DataFrame(
            [(task, repeat, values[task, repeat]) for task in range(tasks) for repeat in range(repeats)],
            columns=["task", "repeat", "value"],
        )
        table = pingouin.intraclass_corr(frame, targets="task", raters="repeat", ratings="value").set_index("Type")
        rows.append({"values": values.tolist(), "correlation": float(table["ICC"].iloc[0]), "kind": str(table.index[0])})
    return rows


def difference_numbers() -> list[dict[str, object]]:
    rng = np.random.default_rng(31)
    rows = []
    for tasks in (30, 45):
        b = rng.normal(0.5, 0.2, tasks).round(3)
        a = (b + rng.normal(0.06, 0.15, tasks)).round(3)
        table = pingouin.ttest(a, b, paired=True)
        column = next(name for name in table.columns if name.startswith("p"))
        rows.append({"a": a.tolist(), "b": b.tolist(), "p_value": float(table[column].iloc[0])})
    return rows


if __name__ == "__main__":
    pingouin.options["round"] = None
    numbers = {
        "pingouin": pingouin.__version__,
        "equivalence": equivalence_numbers(),
        "correlation": correlation_numbers(),
        "difference": difference_numbers(),
    }
    FILE.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
