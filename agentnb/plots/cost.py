"""Cost and tokens of model calls, by operation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import (
    BLUE,
    GREEN,
    ORANGE,
    Look,
    amounts,
    bar_axis,
    bar_label,
    distinct,
    empty,
    finish,
    first_bars,
    panels,
    plot_style,
    stack,
)
from agentnb.plots.drawing.sources import about
from agentnb.tables.model_call_rows import NESTED
from agentnb.tables.usage_table import usage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Cost and tokens, by operation"
DOLLARS = Look("US dollars", GREEN)
INPUT, OUTPUT = Look("input tokens", BLUE), Look("output tokens", ORANGE, "///")


class Operation(NamedTuple):
    """Usage of the calls made for one purpose; values unknown for all of them are None."""

    name: str
    calls: int
    cost: float | None
    priced: int
    """Number of calls with a known cost."""
    input: int | None
    output: int | None
    counted: int
    """Number of calls with known tokens."""

    @property
    def tokens(self) -> int:
        """The sum of all known tokens."""
        return (self.input or 0) + (self.output or 0)

    @property
    def cost_label(self) -> str:
        """The cost, as far as known."""
        if self.cost is None:
            return "no price"
        return dollars(self.cost) if self.priced == self.calls else f"at least {dollars(self.cost)}"

    @property
    def tokens_label(self) -> str:
        """The tokens, as far as known."""
        if not self.counted:
            return "not recorded"
        return f"{self.tokens:,}" if self.counted == self.calls else f"at least {self.tokens:,}"


def cost(source: RunSource) -> Figure:
    """Draw the cost and tokens of model calls by operation: ``chat``, ``compaction``, ``planner`` and so on.

    Calls of a nested run whose log is not in the source count as the operation ``nested``.

    Takes what the tables take. If no price is known, only tokens are drawn, and the plot says so; if the cost of only
    some calls is known, it is "at least" that much.
    """
    runs = load_traces(source)
    operations = _operations(usage(runs))
    if not operations:
        return empty(TITLE, about(runs), "No model was called." if runs else "There are no runs.")
    shown = first_bars(operations, _sum_up)
    priced = any(operation.cost is not None for operation in operations)
    if not any(operation.counted or operation.priced for operation in operations):
        return empty(TITLE, about(runs), "Neither tokens nor cost are recorded.")
    with plot_style():
        figure, axes = panels(0.7 + 0.34 * len(shown), (1.0, 1.25) if priced else (1.0,))
        if priced:
            _draw_cost(axes[0], shown)
        _draw_tokens(axes[-1], shown)
        for panel in axes:
            bar_axis(panel, distinct([operation.name for operation in shown]))
        own = [operation for operation in operations if operation.name != NESTED]
        calls = sum(operation.calls for operation in own)
        nested = sum(operation.calls for operation in operations) - calls
        more = [pluralize(calls, "model call"), *([pluralize(nested, "nested run")] if nested else [])]
        looks = [*([DOLLARS] if priced else []), INPUT, OUTPUT]
        title = TITLE if priced else "Tokens, by operation (no price is known)"
        says = "; ".join(f"{operation.name}: {operation.cost_label}, {operation.tokens_label} tokens" for operation in shown)
        return finish(figure, title, about(runs, *more), looks, _notes(own), says)


def _operations(calls: Any) -> list[Operation]:
    """Return the operations by cost, highest first, then by tokens."""
    rows = []
    for name, group in calls.groupby("operation", sort=False):
        costs, tokens_in, tokens_out = (group[column].dropna() for column in ("cost", "input_tokens", "output_tokens"))
        has_tokens = group["input_tokens"].notna() | group["output_tokens"].notna()
        rows.append(
            Operation(
                str(name),
                len(group),
                float(costs.sum()) if len(costs) else None,
                len(costs),
                int(tokens_in.sum()) if len(tokens_in) else None,
                int(tokens_out.sum()) if len(tokens_out) else None,
                int(has_tokens.sum()),
            )
        )
    return sorted(rows, key=lambda one: (-(one.cost or 0.0), -one.tokens))


def _sum_up(name: str, others: Sequence[Operation]) -> Operation:
    costs = [operation.cost for operation in others if operation.cost is not None]
    return Operation(
        name,
        sum(operation.calls for operation in others),
        sum(costs) if costs else None,
        sum(operation.priced for operation in others),
        sum(operation.input or 0 for operation in others),
        sum(operation.output or 0 for operation in others),
        sum(operation.counted for operation in others),
    )


def _draw_cost(axes: Axes, shown: list[Operation]) -> None:
    for y, operation in enumerate(shown):
        if operation.cost is not None:
            axes.barh(y, operation.cost, 0.72, label=DOLLARS.label, zorder=2, **DOLLARS.fill)
        bar_label(axes, y, operation.cost or 0, operation.cost_label)
    amounts(axes, "x", max(operation.cost or 0 for operation in shown) * 1.75, prefix="$", most=4)
    axes.set_xlabel("US dollars")


def _draw_tokens(axes: Axes, shown: list[Operation]) -> None:
    stack(
        axes, [(INPUT, [operation.input or 0 for operation in shown]), (OUTPUT, [operation.output or 0 for operation in shown])]
    )
    for y, operation in enumerate(shown):
        bar_label(axes, y, operation.tokens, operation.tokens_label)
    amounts(axes, "x", max(operation.tokens for operation in shown) * 1.45, whole=True, most=4)
    axes.set_xlabel("tokens")


def _notes(operations: list[Operation]) -> list[str]:
    calls = sum(operation.calls for operation in operations)
    unpriced = calls - sum(operation.priced for operation in operations)
    uncounted = calls - sum(operation.counted for operation in operations)
    notes = []
    if unpriced:
        notes.append(f"{unpriced:,} of {pluralize(calls, 'call')} without a known price: their cost is not 0, it is unknown")
    if uncounted:
        notes.append(f"{uncounted:,} of {pluralize(calls, 'call')} without recorded tokens")
    return notes


def dollars(amount: float) -> str:
    """Format dollars as ``$1.50`` or ``$0.0021``: with two decimals, or with as many as show two significant digits."""
    if amount <= 0 or amount >= 0.1:
        return f"${amount:,.2f}"
    integer, _, decimals = f"{amount:.{1 - math.floor(math.log10(amount))}f}".partition(".")
    return f"${integer}.{decimals.rstrip('0').ljust(2, '0')}"
