"""Which notebook a kernel belongs to, as its server or VS Code tells it."""

from pathlib import Path
from typing import Any

import pytest

from agentnb.notebook.ipython_extension import notebook_name

HERE = Path("/notebooks/project")


def test_the_notebook_is_named_relative_to_the_folder_in_which_the_kernel_began(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "Jupyter's server": ({"__session__": "/notebooks/project/a.ipynb"}, "a.ipynb"),
        "VS Code": ({"__vsc_ipynb_file__": "/notebooks/project/sub/a.ipynb"}, "sub/a.ipynb"),
        "a notebook in another folder": ({"__session__": "/elsewhere/a.ipynb"}, "/elsewhere/a.ipynb"),
        "a notebook that is a text file": ({"__session__": "/notebooks/project/a.md"}, "a.md"),
        "a console": ({"__session__": "/notebooks/project/console-1-84d1"}, ""),
        "nothing known": ({}, ""),
        "a variable of the person": ({"__session__": 3}, ""),
    }
    for name, (variables, found) in cases.items():
        with subtests.test(name):
            assert notebook_name(variables, HERE) == found
