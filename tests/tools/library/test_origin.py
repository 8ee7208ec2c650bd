"""Functions that belong to libraries."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest

from agentnb.tools.ask_person import ask_person
from agentnb.tools.library.hints import is_of_library


def own() -> None:
    """A function of this file."""


def test_standard_library_and_installed_functions_count_as_library_code(subtests: pytest.Subtests) -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec("def in_a_cell(): ...", cell)
    for function, expected in [
        (json.loads, True),
        (math.sqrt, True),
        (pd.read_csv, True),  # its `__module__` is `pandas`, not the module of its source
        (own, False),
        (cell["in_a_cell"], False),
        (ask_person, False),
    ]:
        with subtests.test(function=function):
            assert is_of_library(function) is expected
