"""Sign flips: a permutation test for paired differences, and the interval obtained by inverting it.

If the true mean is theta and differences are symmetric around it, each ``d - theta`` has either sign with equal probability.
The p value of theta is the share of flips whose absolute sum of ``d - theta`` is at least as large as the observed one. For a
given flip, these thetas form the closed interval between the mean of the flipped differences and the mean of the others, which
contains the overall mean. Therefore p decreases on both sides of the mean, and the limits of the interval are order statistics
of the flips' limits. The tasks of a cluster are flipped together, by flipping their sum.

Sources: Fisher (1935), The Design of Experiments; Hartigan (1969), Journal of the American Statistical Association 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf, log2
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentnb.experiments.statistics.task_values import EQUAL_SHARE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

CODE_BITS = 14
"""For up to 15 non-zero differences, all flips are tried; for more, those given by the 2 ** 14 words of a linear code.

Random flips with a fixed seed err in the same direction in every comparison with the same number of tasks: 9,999 of them made p
values near .05 up to 13 per cent too small or too large on average. A code is balanced: any two tasks have each combination of
signs equally often; on average, its p values are within 2 per cent of those from all flips. Its words form a group, so the test
is exact for any code.
"""
CODE_SEED = 20_350
"""Seed for the parity bits of the code."""


def required_clusters(level: float) -> int | None:
    """Return the minimum number of differences whose p value can be as small as the level, or None if no number suffices."""
    flips = ceil(log2(1 / level) - 1e-9)
    return flips + 1 if flips <= CODE_BITS else None


class FlipTest(NamedTuple):
    """For each flip, the limits of the thetas for which the flip is at least as extreme as the observed signs."""

    lows: Floats
    highs: Floats
    tolerance: float
    """Distance that counts as 0, so that rounding errors do not matter."""

    def p_value(self, theta: float = 0.0) -> float:
        """Return the two-sided p value for a true mean of ``theta``."""
        tolerance = self.tolerance + EQUAL_SHARE * abs(theta)
        return float(((self.lows <= theta + tolerance) & (self.highs >= theta - tolerance)).mean())

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the range of true means whose p value is at least ``alpha``; infinite if no p value can be smaller."""
        import numpy as np

        size = len(self.lows)
        rank = max(ceil(alpha * size - 1e-9), 1)  # flips required for a theta in the interval; 1 - 0.95 is not quite 0.05
        low = float(np.partition(self.lows, rank - 1)[rank - 1])
        high = float(np.partition(self.highs, size - rank)[size - rank])
        return self._round(low), self._round(high)

    def _round(self, limit: float) -> float:
        return 0.0 if abs(limit) <= self.tolerance else limit


def flip_signs(differences: Sequence[float], sizes: Sequence[int] | None = None) -> FlipTest:
    """Flip differences, or the sums of differences in clusters with these numbers of tasks.

    The flips do not depend on the order of the differences, or on which arm comes first: swapping the arms merely negates them.
    """
    import numpy as np

    values = np.asarray(differences, dtype=float)
    counts = np.ones(len(values)) if sizes is None else np.asarray(sizes, dtype=float)
    scale = float(np.abs(values).max()) or 1.0
    rounded = np.round(values / scale, 9)
    ascending = np.sort(rounded)
    uneven = ascending + ascending[::-1]  # negated for negated differences
    sign = -1.0 if next(iter(uneven[uneven != 0]), 1.0) < 0 else 1.0
    order = np.lexsort((counts, sign * rounded, -np.abs(rounded)))
    sums, numbers = np.moveaxis(sum_flips(np.stack([values[order], counts[order]], axis=1)), 1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (sums[0] + sums) / (numbers[0] + numbers), (sums[0] - sums) / (numbers[0] - numbers)
    lows, highs = np.minimum(*means), np.maximum(*means)
    unchanged = numbers == numbers[0]  # the observed signs count under every theta
    lows[unchanged], highs[unchanged] = -inf, inf
    return FlipTest(lows, highs, EQUAL_SHARE * scale)


def sum_flips(values: Any, bits: int = CODE_BITS) -> Floats:
    """Return the sums of rows under each flip of their signs, unflipped first, using a Walsh-Hadamard transform.

    A flip is equivalent to its opposite, so the first row is never flipped. All flips of the first ``bits + 1`` rows occur
    equally often.
    """
    import numpy as np

    columns = _code(len(values), bits)
    bits = min(bits, len(values) - 1)
    trailing = np.shape(values)[1:]
    sums = np.zeros((2**bits, *trailing))
    np.add.at(sums, columns, values)
    for bit in range(bits):
        first, second = np.moveaxis(sums.reshape(-1, 2, 2**bit, *trailing), 1, 0)
        sums = np.stack((first + second, first - second), axis=1)
    return sums.reshape(2**bits, *trailing)


@lru_cache(maxsize=8)
def _code(rows: int, bits: int) -> Any:
    """Return, for each row, the bits of a word whose parity is its sign."""
    import numpy as np

    columns = np.random.default_rng(CODE_SEED).integers(1, 2**bits, rows)
    basis = [0, *[2**bit for bit in range(bits)]][:rows]
    columns[: len(basis)] = basis
    return columns
