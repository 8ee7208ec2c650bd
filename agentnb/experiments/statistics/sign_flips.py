"""Sign flips: a permutation test of paired differences, and the interval that inverts it.

If the true mean is theta and differences are symmetric around it, each ``d - theta`` is as likely with the other sign. The p
value of theta is the share of flips whose absolute sum of ``d - theta`` reaches the one that was observed. For one flip these
thetas are the closed interval between the mean of the flipped differences and the mean of the others, which holds the mean of
all. So p falls on both sides of the mean, and the limits of the interval are order statistics of the limits of the flips.

Sources: Fisher (1935), The Design of Experiments; Hartigan (1969), Journal of the American Statistical Association 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentnb.experiments.statistics.tasks import EQUAL_SHARE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

MAX_EXACT_TASKS = 15
"""Tasks up to which all 2 ** 14 pairs of a flip and its opposite are tried."""
CODE_BITS = 14
"""For more tasks the flips are the 2 ** 14 words of a linear code and their mirror images.

Random flips with a fixed seed err in the same direction in every comparison of as many tasks: 9,999 of them made p values near
.05 up to 13 per cent too small or too large on average. A code is balanced, any two tasks have each combination of signs
equally often: its p values are within 2 per cent of those of all flips on average.
"""
CODE_SEED = 20_350
"""Seed of the parity bits of the code."""


class FlipTest(NamedTuple):
    """For each flip the thetas under which it is at least as extreme as the observed signs: the lower and upper limits."""

    lows: Floats
    highs: Floats
    tolerance: float
    """Distance that counts as none, because of rounding errors."""

    def p_value(self, theta: float = 0.0) -> float:
        """Return the two-sided p value of a true mean of ``theta``."""
        tolerance = self.tolerance + EQUAL_SHARE * abs(theta)
        return float(((self.lows <= theta + tolerance) & (self.highs >= theta - tolerance)).mean())

    def exceeding_share(self, theta: float) -> float:
        """Return the share of flips that are strictly more extreme than the observed signs under a true mean of ``theta``."""
        import numpy as np

        tolerance = self.tolerance + EQUAL_SHARE * abs(theta)
        is_inside = (self.lows < theta - tolerance) & (self.highs > theta + tolerance)
        return float((is_inside & np.isfinite(self.lows)).mean())

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the range of true means with a p value of at least ``alpha``; infinite if no p value can be below it."""
        import numpy as np

        size = len(self.lows)
        rank = max(ceil(alpha * size - 1e-9), 1)  # flips that a theta in the interval needs; 1 - 0.95 is not quite 0.05
        low = float(np.partition(self.lows, rank - 1)[rank - 1])
        high = float(np.partition(self.highs, size - rank)[size - rank])
        return self._round(low), self._round(high)

    def _round(self, limit: float) -> float:
        return 0.0 if abs(limit) <= self.tolerance else limit


def flip_signs(differences: Sequence[float]) -> FlipTest:
    """Try all flips of up to 15 differences, and of more a balanced choice of 32,768, always the same one."""
    import numpy as np

    values = np.sort(np.asarray(differences, dtype=float))  # chosen flips depend on no order of tasks
    kept, kept_counts, flipped_counts = _choose_flips(len(values))
    sums = np.einsum("ij,j->i", kept, values)  # BLAS would take all cores for so little
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / kept_counts, (values.sum() - sums) / flipped_counts
    lows, highs = np.minimum(*means), np.maximum(*means)
    unchanged = flipped_counts == 0  # the observed signs are as extreme as themselves under every theta
    lows[unchanged], highs[unchanged] = -inf, inf
    return FlipTest(lows, highs, EQUAL_SHARE * float(np.abs(values).max()))


@lru_cache(maxsize=4)
def _choose_flips(tasks: int) -> tuple[Any, Any, Any]:
    """Return which differences keep their sign, a row a flip, and how many keep it and how many do not.

    A flip and its opposite, which changes all other signs, have the same interval: one row stands for both. Words of the code
    come with their mirror images, so that swapped arms, whose sorted differences are mirrored, get the same p value.
    """
    import numpy as np

    bits = min(tasks - 1, CODE_BITS)
    words = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    if tasks <= MAX_EXACT_TASKS:
        kept = np.concatenate([words == 0, np.ones((len(words), 1), dtype=bool)], axis=1)
    else:
        parity = words @ np.random.default_rng(CODE_SEED).integers(0, 2, (bits, tasks - bits)) % 2
        code = np.concatenate([words, parity], axis=1) == 0
        kept = np.concatenate([code, code[:, ::-1]])
    counts = kept.sum(axis=1)
    return kept.astype(np.float64), counts, tasks - counts
