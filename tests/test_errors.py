"""Errors that a user reads."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from agentnb import errors
from agentnb.advice import in_python, sentences
from agentnb.detect.run import Run
from agentnb.errors import suggest_names, suggest_similar

CLASSES = {name: value for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}


def drawn() -> dict[str, str]:
    """Return each class of the tree in the docstring, with its parent."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([\s│├└─]*)([A-Z]\w+)\s{2,}\S", line):
            depth, name = len(found[1]), found[2]
            above = [one for one in above if one[0] < depth]
            parents[name] = above[-1][1] if above else "Exception"
            above.append((depth, name))
    return parents


def test_error_tree_in_the_docstring_is_current() -> None:
    assert drawn() == {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}


def test_every_error_names_the_problem_and_the_next_step(subtests: pytest.Subtests) -> None:
    for kind in CLASSES.values():
        with subtests.test(kind.__name__):
            error = kind("It is broken", "Mend it")
            assert (str(error), error.what, error.hint, error.run) == ("It is broken. Mend it", "It is broken", "Mend it", None)
            assert str(kind("It is broken")) == "It is broken"


def test_every_error_can_carry_its_run(subtests: pytest.Subtests) -> None:
    for kind in CLASSES.values():
        with subtests.test(kind.__name__):
            run = Run()
            assert kind("x", run=run).run is run


def test_every_error_can_be_pickled(subtests: pytest.Subtests) -> None:
    for kind in CLASSES.values():
        with subtests.test(kind.__name__):
            for again in (pickle.loads(pickle.dumps(kind("a", "b"))), copy.copy(kind("a", "b"))):
                assert (type(again), again.what, again.hint) == (kind, "a", "b")


def test_errors_derive_from_builtin_exceptions(subtests: pytest.Subtests) -> None:
    for kind, known in [
        (errors.SettingsError, ValueError),
        (errors.NotAvailable, ImportError),
        (errors.ModelError, RuntimeError),
        (errors.StoreError, OSError),
        (errors.TraceError, ValueError),
        (errors.RunFailed, RuntimeError),
    ]:
        with subtests.test(kind.__name__):
            assert issubclass(kind, known)


def test_problem_and_hint_are_joined_into_one_line(subtests: pytest.Subtests) -> None:
    for what, hint, line in [
        ("It broke", "", "It broke"),
        ("It broke", "Mend it", "It broke. Mend it"),
        ("It broke.", "Mend it", "It broke. Mend it"),
        ("Why?", "Because", "Why? Because"),
        ("No!", "Yes", "No! Yes"),
    ]:
        with subtests.test(what):
            assert sentences(what, hint) == line


def test_most_similar_names_are_offered(subtests: pytest.Subtests) -> None:
    for name, known, said in [
        ("ad", ["add", "sub"], "Did you mean add?"),
        ("load", ["loud", "lead", "x"], "Did you mean loud or lead?"),
        ("zzz", ["add", "sub"], "Available: add, sub."),
        ("halt", ["defaults", "stop"], "Available: defaults, stop."),
        ("--bogus", ["--budget", "--tag"], "Available: --budget, --tag."),
        ("--modle", ["-m", "--model"], "Did you mean --model?"),
        ("zzz", [], ""),
        ("zzz", [str(n) for n in range(10)], "Available: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more."),
    ]:
        with subtests.test(name):
            assert in_python(suggest_names(name, known)) == said


def test_at_most_three_names_are_offered() -> None:
    assert in_python(suggest_names("item", [f"item{n}" for n in range(9)])).count("item") == 3
    assert suggest_similar("zzz", ["add"]) == () and len(suggest_similar("ad", ["add"])) == 1
