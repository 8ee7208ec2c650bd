"""The agreement between several people who labelled the same runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentnb.detect.intervals import RESAMPLES
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError
from agentnb.store.run_labels import LabelSource, labels_of


class Agreement(NamedTuple):
    """Krippendorff's alpha for nominal labels: 1 is perfect agreement, 0 is agreement by chance."""

    alpha: float | None
    """Undefined (None) if all labels are equal."""
    interval: tuple[float, float] | None
    """Limits of the 95 per cent interval."""
    subjects: int
    """Number of runs, or reminders, labelled by at least two people."""
    people: int

    def __repr__(self) -> str:
        alpha = "unknown" if self.alpha is None else f"{self.alpha:.2f}"
        limits = "" if self.interval is None else f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]"
        return f"Krippendorff's alpha of {self.people} people on {pluralize(self.subjects, 'subject')}: {alpha}{limits}"


def agreement(labels: LabelSource) -> Agreement:
    """Measure how far people agree about the runs or reminders that at least two of them labelled.

    ``labels``: a file of labels, or the result of `agentnb.labels`. The interval comes from 2,000 resamples of the subjects,
    with a fixed seed. Raises `SettingsError` if no two people labelled the same run or reminder. Sources: Krippendorff (2004),
    Content Analysis, chapter 11; Zapf and others (2016), BMC Medical Research Methodology 16, for the interval.
    """
    import numpy as np

    words_by_subject: dict[str, dict[str, str]] = {}
    for label in labels_of(labels):
        words_by_subject.setdefault(label.subject, {})[label.who] = label.word or str(label.label)
    several = [words for words in words_by_subject.values() if len(words) > 1]
    if not several:
        raise SettingsError("No two people labelled the same run", 'Each person gives a name: label(runs, who="ada")')
    names = [*dict.fromkeys(word for words in several for word in words.values())]
    counts = np.asarray([[[*words.values()].count(name) for name in names] for words in several], dtype=float)
    draws = np.random.default_rng(0).integers(0, len(several), (RESAMPLES, len(several)))
    alpha = float(_alpha(counts, np.arange(len(several))[None])[0])
    resampled = _alpha(counts, draws)
    finite = resampled[np.isfinite(resampled)]  # alpha is undefined for a resample with equal labels
    limits = np.percentile(finite, (2.5, 97.5)) if len(several) > 1 and np.isfinite(alpha) else None
    return Agreement(
        alpha if np.isfinite(alpha) else None,
        None if limits is None else (float(limits[0]), float(limits[1])),
        len(several),
        len({who for words in several for who in words}),
    )


def _alpha(counts: Any, draws: Any) -> Any:
    """Compute alpha for each draw of subjects; NaN if all labels are equal. ``counts``: for each subject, the number of labels
    by name.
    """
    import numpy as np

    raters = counts.sum(axis=1)
    differing = (raters**2 - (counts**2).sum(axis=1)) / (raters - 1)
    by_name = counts[draws].sum(axis=1)
    total = raters[draws].sum(axis=1)
    by_chance = (total**2 - (by_name**2).sum(axis=1)) / (total - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance > 0, 1 - differing[draws].sum(axis=1) / by_chance, np.nan)
