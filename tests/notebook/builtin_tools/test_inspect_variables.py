"""``inspect_variables`` in a kernel: its output, without running code of the values."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from asserted_sentences import Snapshot
from real_kernel import Kernel

SETUP = """
%load_ext agentnb
import collections, datetime, decimal, json, pathlib, sys
import numpy as np
import pandas as pd
from agentnb import Agent, ToolCall
from agentnb.models import ScriptedModel

def _shown(**arguments):
    model = ScriptedModel([ToolCall("inspect_variables", arguments), "Done."])
    agent = Agent(model, tools=["notebook"], guidance="off", todos=False)
    return agent.run_sync("go").rounds[0].results[0].text
"""
DATA = """
n, ratio, yes, nothing = 3, 0.5, True, None
text = "some words " * 20
raw = b"abc"
huge = 10 ** 6_000
when = datetime.datetime(2024, 1, 2, 3, 4)
price = decimal.Decimal("1.50")
path = pathlib.Path("data") / "a.csv"
numbers = list(range(1_000))
pairs = {"a": [1, (2, 3)], 4: {"deep": {"deeper": {"deepest": 1}}}}
counts = collections.Counter("hello")
array = np.arange(12.0).reshape(3, 4)
scalar = np.float64(2.5)
days = pd.date_range("2024-01-01", periods=3, tz="Europe/Paris", unit="s")
frame = pd.DataFrame(
    {"t": days, "s": ["x", None, "z"], "i": pd.array([1, None, 3], dtype="Int64"), "c": pd.Categorical(["u", "v", "u"])},
    index=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["k", "n"]),
)
series = pd.Series([1.5, 2.5], index=["p", "q"], name="heights")
index = pd.Index(["p", "q"])
def double(value, *, times=2):
    "Multiply."
    return value * times
class Thing: pass
thing = Thing()
"""
TRAPS = """
ran = []
class Meta(type):
    def __repr__(cls): ran.append("metaclass repr"); return "x"
    def __hash__(cls): ran.append("metaclass hash"); return 1
    def __eq__(cls, other): ran.append("metaclass eq"); return False
    def __getattribute__(cls, name): ran.append(f"metaclass {name}"); return super().__getattribute__(name)
    @property
    def __name__(cls): ran.append("metaclass name"); return "x"
class Trap(metaclass=Meta):
    def __repr__(self): ran.append("repr"); return "x"
    __str__ = __format__ = __repr__
    def __len__(self): ran.append("len"); return 1
    def __iter__(self): ran.append("iter"); return iter(())
    def __bool__(self): ran.append("bool"); return True
    def __hash__(self): ran.append("hash"); return 1
    def __eq__(self, other): ran.append("eq"); return False
    def __getattr__(self, name): ran.append(f"getattr {name}"); raise AttributeError
    def __getattribute__(self, name): ran.append(f"get {name}"); return object.__getattribute__(self, name)
    def __deepcopy__(self, memo): ran.append("deepcopy"); return self
    def __sizeof__(self): ran.append("sizeof"); return 1
    @property
    def shape(self): ran.append("shape"); return (1,)
    @property
    def __class__(self): ran.append("class"); return dict
class Word(str):
    def __repr__(self): ran.append("word repr"); return "x"
    __str__ = __repr__
    def __len__(self): ran.append("word len"); return 0
    def __hash__(self): ran.append("word hash"); return str.__hash__(self)
    def __eq__(self, other): ran.append("word eq"); return str.__eq__(self, other)
    def __format__(self, spec): ran.append("word format"); return ""
class Items(list):
    def __len__(self): ran.append("items len"); return 0
    def __iter__(self): ran.append("items iter"); return iter(())
class Zone(datetime.tzinfo):
    def utcoffset(self, when): ran.append("zone"); return datetime.timedelta(0)
    dst = tzname = utcoffset
class Frame(pd.DataFrame):
    @property
    def shape(self): ran.append("frame shape"); return (1, 1)
    def __len__(self): ran.append("frame len"); return 1
class Labels(pd.Index):
    def __len__(self): ran.append("labels len"); return 1
class Dtype(pd.api.extensions.ExtensionDtype):
    name = property(lambda self: ran.append("dtype name") or "mine")
    type = object
    @classmethod
    def construct_array_type(cls): return Column
class Column(pd.api.extensions.ExtensionArray):
    dtype = property(lambda self: ran.append("column dtype") or Dtype())
    nbytes = property(lambda self: ran.append("column bytes") or 8)
    ndim, shape = 1, (1,)
    def __len__(self): ran.append("column len"); return 1
    def __getitem__(self, place): ran.append("column item"); return self
    def copy(self): return self
trap, word, items, kind = Trap(), Word("abc"), Items([1, 2]), Trap
box = [trap, word, items, {trap: trap, word: 1}, (trap,), {trap}, collections.deque([trap]), collections.OrderedDict(a=trap)]
cells = pd.DataFrame({"n": [1, 2, 3], "o": [trap, word, items], Word("k"): [1.0, None, 3.0]})
cells[trap] = [1, 2, 3]
cells.attrs["x"] = trap
labels = pd.Series([trap, 1, "a"], name=trap, index=[trap, word, 1])
levels = pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(trap, 1)], names=[trap, "y"]))
objects = np.array([trap, 1, "x"], dtype=object)
groups = pd.Series(pd.Categorical([trap, trap]))
moment = datetime.datetime(2024, 1, 2, tzinfo=Zone())
moments = pd.Series([moment, moment], dtype=object)
zoned = pd.DataFrame({"t": pd.Series([pd.Timestamp(2024, 1, 2, tzinfo=Zone())] * 2)})
frames = Frame({"a": [1]})
odd_labels = pd.DataFrame({"a": [1]})
object.__getattribute__(odd_labels, "_mgr").axes[1] = Labels._simple_new(np.array(["a"], dtype=object), None)
odd_column = pd.Series(Column())
odd_frame = pd.DataFrame({"a": Column()})
globals()[Word("hidden")] = 3
def renamed(first, second=2): "Doc."
renamed.__name__ = Word("other")
renamed.__doc__ = Word("doc")
Trap.__qualname__ = Word("Qualified")
ran.clear()
"""

EACH = """
_found = {}
for _name in {"hidden", *(n for n in [*globals()] if type(n) is str and n[0] != "_")} - {"ran", "found", "told"}:
    ran.clear()
    _shown(names=[_name])
    _found[_name] = list(ran)
print(json.dumps(_found))
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    cell = kernel.run(SETUP)
    assert cell.status == "ok", cell.error
    yield kernel
    kernel.close()


def test_variables_are_listed_by_class_size_and_columns(kernel: Kernel, snapshot: Snapshot) -> None:
    cell = kernel.run(DATA)
    assert cell.status == "ok", cell.error
    assert kernel.run("print(_shown())").printed == snapshot("all")
    assert kernel.run("print(_shown(names=['frame', 'series', 'array', 'index']))").printed == snapshot("tables")
    assert kernel.run("print(_shown(names=['numbers', 'pairs', 'double', 'thing', 'n']))").printed == snapshot("others")
    assert kernel.run("print(_shown(names=['nunber', 'n']))").printed == snapshot("one unknown")
    assert kernel.run("print(_shown(names=['frane']))").printed == snapshot("unknown")


def test_inspection_never_runs_code_defined_by_the_values(kernel: Kernel, subtests: pytest.Subtests) -> None:
    cell = kernel.run(TRAPS)
    assert cell.status == "ok", cell.error
    with subtests.test("all"):
        kernel.run("ran.clear(); told = _shown(); found = list(ran)")
        assert kernel.value("found") == "[]"
        assert "trap: Qualified\n" in kernel.run("print(told)").printed
    for name, found in json.loads(kernel.run(EACH).printed).items():
        with subtests.test(name):
            assert found == []
    with subtests.test("cells are shown as far as they are known"):
        printed = kernel.run("print(_shown(names=['cells']))").printed
        assert "<Qualified>" in printed and "<Word>" in printed and "nan" in printed


def test_foreign_columns_and_indexes_are_named_without_running_their_code(kernel: Kernel) -> None:
    cell = kernel.run(TRAPS)
    assert cell.status == "ok", cell.error
    for name in ("odd_labels", "odd_column", "odd_frame"):
        kernel.run("ran.clear()")
        printed = kernel.run(f"print(_shown(names=[{name!r}])); print(ran)").printed
        assert "has an unknown class" in printed and printed.endswith("[]\n"), printed


def test_long_texts_and_many_variables_are_truncated(kernel: Kernel) -> None:
    kernel.run("import os; os.environ['ANTHROPIC_API_KEY'] = 'sk-ant-' + 'k' * 40")
    kernel.run("long = 'a' * 1_990 + os.environ['ANTHROPIC_API_KEY'] + 'b' * 100_000\nshort = 'x' * 60 + long[1_990:2_040]")
    printed = kernel.run("print(_shown(names=['long'])); print(_shown(names=['short']))").printed
    assert "sk-" not in printed and len(printed) < 3_000
    kernel.run("del os.environ['ANTHROPIC_API_KEY']\nfor _n in range(1_000): globals()[f'many_{_n}'] = _n")
    printed = kernel.run("print(_shown())").printed
    assert len(printed) < 32_000 and "more:" in printed
