"""Comparison of two runs. Their rounds are aligned by their tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.core.run.inner_calls import outer_calls
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import open_todos
from agentnb.core.usage import Usage
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.run import Run
from agentnb.interchange.files import one_run
from agentnb.tables.columns import success_of, table_of

if TYPE_CHECKING:
    import pandas as pd

Difference: TypeAlias = Literal["same", "text", "results", "calls", "only_a", "only_b"]
"""Difference between two aligned rounds: none, only the text, the results of the same calls, or the calls; or the round
is in only one run.
"""
_encoder = msgspec.json.Encoder(order="sorted")
_Key: TypeAlias = tuple[tuple[str, bytes], ...]


class RoundPair(NamedTuple):
    """Two corresponding rounds, with None for a round that one of the runs lacks."""

    a: WorkflowRound | None
    b: WorkflowRound | None
    difference: Difference


@dataclass(frozen=True)
class RunDiff:
    """Two aligned runs: `rounds` pairs their rounds, `table` and `summary` are data frames."""

    a: Run
    b: Run

    @cached_property
    def rounds(self) -> tuple[RoundPair, ...]:
        """Rounds of both runs in order; those with equal tool calls are paired."""
        return tuple(_align(self.a.rounds, self.b.rounds))

    @cached_property
    def first_divergence(self) -> RoundPair | None:
        """The first pair that differs in more than text, or None."""
        return next((pair for pair in self.rounds if pair.difference not in ("same", "text")), None)

    def table(self) -> pd.DataFrame:
        """Return one row per pair of rounds: ``round_a`` and ``round_b`` from 1, missing if a run has no such round."""
        return table_of(self.rounds, _COLUMNS)

    def summary(self) -> pd.DataFrame:
        """Return one row per figure: outcome, todos, guidance, tokens and cost for both runs, and the difference b -
        a.

        Unknown figures are missing. Tokens are counts, ``cost`` is in US dollars, ``seconds`` is wall time.
        """
        import pandas as pd

        rows = [(name, a, b) for name, (a, b) in self.figures().items()]
        return pd.DataFrame(
            {
                "what": pd.Series([name for name, _, _ in rows], dtype="str"),
                "a": pd.Series([a for _, a, _ in rows], dtype="object"),
                "b": pd.Series([b for _, _, b in rows], dtype="object"),
                "difference": pd.Series([_minus(b, a) for _, a, b in rows], dtype="float64"),
            }
        )

    def figures(self) -> dict[str, tuple[Any, Any]]:
        """Return the figures of `summary` for a and b, by name; unknown figures are None."""
        return {name: (value(self.a), value(self.b)) for name, value in _FIGURES.items()}

    def todos(self) -> pd.DataFrame:
        """Return one row per todo of either run, by title: its final status in each run, missing if a run has no such todo."""
        import pandas as pd

        a, b = ({todo.title: todo.status for todo in run.todos} for run in (self.a, self.b))
        titles = [*a, *(title for title in b if title not in a)]
        status = {"a": [a.get(title) for title in titles], "b": [b.get(title) for title in titles]}
        columns = {"title": titles, **status}
        return pd.DataFrame({name: pd.Series(values, dtype="str") for name, values in columns.items()})

    def __repr__(self) -> str:
        return f"<RunDiff {self.a.id} and {self.b.id}: {self.sentence}>"

    @property
    def sentence(self) -> str:
        """A sentence about the first divergence."""
        pair = self.first_divergence
        if pair is None:
            says = any(candidate.difference == "text" for candidate in self.rounds)
            return "they made the same calls with the same results" + (", but their texts differ" if says else "")
        places = [
            f"round {round_.index + 1} of {name}" for round_, name in ((pair.a, "a"), (pair.b, "b")) if round_ is not None
        ]
        return f"they diverge at {' and '.join(places)} ({_WORDS[pair.difference]})"


def diff(a: Run | str | Path, b: Run | str | Path) -> RunDiff:
    """Compare two runs, given as runs or as files.

    Rounds with the same tool calls are paired, even if their texts differ.
    """
    a, b = one_run(a), one_run(b)
    for run in (a, b):
        check_of_agent(run, "a diff compares rounds")
    return RunDiff(a, b)


_WORDS: dict[Difference, str] = {
    "same": "the same",
    "text": "the texts differ",
    "results": "the same calls have different results",
    "calls": "the calls differ",
    "only_a": "b has no such round",
    "only_b": "a has no such round",
}


def _align(a: Sequence[WorkflowRound], b: Sequence[WorkflowRound]) -> Iterator[RoundPair]:
    matcher = SequenceMatcher(None, [*map(_key, a)], [*map(_key, b)], autojunk=False)
    for tag, a_first, a_end, b_first, b_end in matcher.get_opcodes():
        pairs = min(a_end - a_first, b_end - b_first)
        for offset in range(pairs):
            round_a, round_b = a[a_first + offset], b[b_first + offset]
            yield RoundPair(round_a, round_b, _difference(round_a, round_b) if tag == "equal" else "calls")
        yield from (RoundPair(round_, None, "only_a") for round_ in a[a_first + pairs : a_end])
        yield from (RoundPair(None, round_, "only_b") for round_ in b[b_first + pairs : b_end])


def _key(round_: WorkflowRound) -> _Key:
    """Return the tool calls of a round, without ids; the keys of all rounds without calls are equal."""
    return tuple([(call.name, _encoder.encode(call.arguments)) for call in round_.calls])


def _difference(a: WorkflowRound, b: WorkflowRound) -> Difference:
    if [(result.text, result.is_error) for result in a.results] != [(result.text, result.is_error) for result in b.results]:
        return "results"
    return "same" if a.text == b.text else "text"


def _calls(round_: WorkflowRound | None) -> str | None:
    if round_ is None or not round_.calls:
        return None
    return ", ".join(f"{call.name}({_encoder.encode(call.arguments).decode()})" for call in round_.calls)


def _of(name: str, value: Callable[[WorkflowRound], Any]) -> Callable[[RoundPair], Any]:
    """Return a function that gets a value from one round of a pair, or None if there is no such round."""

    def of_pair(pair: RoundPair) -> Any:
        round_: WorkflowRound | None = getattr(pair, name)
        return None if round_ is None else value(round_)

    return of_pair


_VALUES: dict[str, tuple[str, Callable[[WorkflowRound], Any]]] = {
    "round": ("Int64", lambda round_: round_.index + 1),
    "calls": ("str", _calls),
    "text": ("str", lambda round_: round_.text or None),
    "guidance": ("str", lambda round_: ", ".join(item.cell for item in round_.guidance) or None),
    "cost": ("float64", lambda round_: (round_.usage or Usage()).cost),
}
_COLUMNS: dict[str, tuple[str, Callable[[RoundPair], Any]]] = {
    "difference": ("str", lambda pair: pair.difference),
    **{f"{name}_{side}": (dtype, _of(side, value)) for name, (dtype, value) in _VALUES.items() for side in ("a", "b")},
}
_FIGURES: dict[str, Callable[[Run], Any]] = {
    "model": lambda run: run.model,
    "status": lambda run: run.status,
    "stop_reason": lambda run: run.stop_reason,
    "rounds": lambda run: len(run.rounds),
    "tool_calls": lambda run: sum(1 for _ in outer_calls(run)),
    "tool_errors": lambda run: sum(success_of(record) is False for record in outer_calls(run)),
    "todos": lambda run: len(run.todos),
    "todos_completed": lambda run: len(run.todos) - len(open_todos(run.todos)),
    "todo_violations": lambda run: sum(len(round_.todo_violations) for round_ in run.rounds),
    "guidance": lambda run: run.settings.get("guidance", {}).get("set"),
    "guidance_given": lambda run: sum(len(round_.guidance) for round_ in run.rounds),
    "guidance_followed": lambda run: sum(verdict.followed is True for round_ in run.rounds for verdict in round_.followed),
    "input_tokens": lambda run: run.usage.input,
    "output_tokens": lambda run: run.usage.output,
    "cost": lambda run: run.cost,
    "seconds": lambda run: None if run.should_continue or run.status == "interrupted" else run.seconds,
}


def _minus(b: Any, a: Any) -> float | None:
    if isinstance(a, str | None) or isinstance(b, str | None):
        return None
    return float(b - a)
