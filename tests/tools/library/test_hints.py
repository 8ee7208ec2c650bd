"""Library type hints with names that only type checkers import."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentnb.errors import InvalidTool
from agentnb.tools.function import FunctionTool
from agentnb.tools.library.hints import UNREADABLE, read_hints

SOURCE = '''
from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import json as js
    from collections.abc import (
        Sequence,
        Hashable as Key,
    )

    from .unloaded import Frame
    from .kinds import Size

raise_if_run = True

def load(path: str, rows: Sequence[int], decoder: js.JSONDecoder, size: Size, frame: Frame | None = None, by=3) -> Frame:
    """Load it."""
    return path
'''


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function of an installed package with unreadable hints."""
    folder = tmp_path / "site-packages" / "some_library"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "unloaded.py").write_text("class Frame: ...\n")
    (folder / "kinds.py").write_text("Size = int\n")
    (folder / "loading.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder.parent)
    import some_library.kinds  # type: ignore[import-not-found]
    import some_library.loading  # type: ignore[import-not-found]

    yield some_library.loading.load
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_library"]:
        del sys.modules[name]


def test_one_unreadable_library_hint_does_not_affect_the_others(load: Any) -> None:
    import json
    from collections.abc import Sequence

    hints = read_hints(load, "load", is_library=True)
    assert hints == {
        "path": str,
        "rows": Sequence[int],
        "decoder": json.JSONDecoder,
        "size": int,
        "frame": UNREADABLE,
        "return": UNREADABLE,
    }
    assert "some_library.unloaded" not in sys.modules, "imports for type checkers do not run"


def test_unreadable_library_hint_accepts_any_value(load: Any) -> None:
    load.__annotations__.pop("decoder")
    function_tool = FunctionTool(load)
    assert function_tool.spec.input_schema["properties"]["frame"] == {}
    assert "frame has no type hint that can be read: any value is accepted" in function_tool.signature.gaps


def test_unreadable_hint_of_a_user_function_is_an_error(load: Any) -> None:
    with pytest.raises(InvalidTool, match="Import or define the type first"):
        read_hints(load, "load", is_library=False)


def test_module_without_source_leaves_its_hints_unreadable(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(load.__globals__, "__name__", "no_source_here")
    monkeypatch.setitem(sys.modules, "no_source_here", ModuleType("no_source_here"))
    hints = read_hints(load, "load", is_library=True)
    assert hints["path"] is str and hints["rows"] is UNREADABLE
