"""The notebook of a kernel, as reported by its server or VS Code."""

from pathlib import Path
from typing import Any

import pytest

from agentnb.notebook.ipython_extension import notebook_name

HERE = Path("/notebooks/project")


def test_notebook_name_is_relative_to_the_folder_of_the_kernel(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "Jupyter's server": ({"__session__": "/notebooks/project/a.ipynb"}, "a.ipynb"),
        "VS Code": ({"__vsc_ipynb_file__": "/notebooks/project/sub/a.ipynb"}, "sub/a.ipynb"),
        "a notebook in another folder": ({"__session__": "/elsewhere/a.ipynb"}, "/elsewhere/a.ipynb"),
        "a notebook that is a text file": ({"__session__": "/notebooks/project/a.md"}, "a.md"),
        "a console": ({"__session__": "/notebooks/project/console-1-84d1"}, ""),
        "nothing known": ({}, ""),
        "a variable of the person": ({"__session__": 3}, ""),
    }
    for name, (variables, expected) in cases.items():
        with subtests.test(name):
            assert notebook_name(variables, HERE) == expected
