"""Worlds with a known truth: runs drawn in two arms whose mean difference over tasks is the requested effect.

Drawing is independent of the package. Only `compared` calls `agentnb.compare`: with rows of an experiment, or with runs for
worlds of recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import exp, inf
from random import Random
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from made_results import results_from, row
from run_builder import START

from agentnb import compare
from agentnb.core.log import events as e
from agentnb.core.log.outcome import Assessment
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.core.messages import user
from agentnb.detect.run import Run
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.statistics.paired import Difference


class Drawn(NamedTuple):
    """A drawn run."""

    task: str
    arm: str
    value: float | bool | None
    """None if its check has no value."""
    repeat: int = 0
    model: str = "m"
    cluster: str = ""
    benchmark: str = ""
    ended: str = "completed"
    """``limited``: ended by a limit; ``failed``: by its provider."""
    nested: int = 0
    """Recorded runs nested in it, with its value."""

    @property
    def key(self) -> str:
        """Return the id of the run."""
        return f"{self.arm}-{self.benchmark}-{self.task}-{self.model}-{self.repeat}"


Draw: TypeAlias = Callable[[Random, int, int, float], Iterator[Drawn]]
"""Draws runs of this many tasks and repeats, on average higher in the first arm by this effect."""


@dataclass(frozen=True, slots=True)
class World:
    """A world, and its size in regular test runs."""

    draw: Draw
    tasks: int = 30
    repeats: int = 1
    effect: float = 0.2
    """Its effect, where comparisons state no detectable one; 0: no effect."""
    limit: float = 0.6
    """The largest effect that can be drawn."""
    excuse: str = ""
    """Reason for a larger error, if the comparison states it."""
    is_recorded: bool = False
    is_assumed: bool = False
    """The stated effect's assumption holds: it is equal in all tasks."""
    is_crossed: bool = True
    """It has other sizes at night."""


def lifted(rate: float, effect: float, mean: float) -> float:
    """Draw the rate of a task in the first arm: over tasks of mean rate ``mean``, the mean rate rises by the effect."""
    return rate + effect * (1 - rate) / (1 - mean)


def passes(rng: Random, task: int, repeats: int, rates: tuple[float, float], **fields: Any) -> Iterator[Drawn]:
    for arm, rate in zip("ab", rates, strict=True):
        for repeat in range(repeats):
            yield Drawn(f"t{task}", arm, rng.random() < rate, repeat, **fields)


def draw_alike(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """All tasks pass as often, and the effect is the same in each."""
    for task in range(tasks):
        yield from passes(rng, task, repeats, (0.4 + effect, 0.4))


def draw_uneven(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Draw easy and hard tasks."""
    for task in range(tasks):
        rate = rng.choice((0.05, 0.2, 0.4, 0.6, 0.75))
        yield from passes(rng, task, repeats, (lifted(rate, effect, 0.4), rate))


def draw_few(rng: Random, tasks: int, repeats: int, effect: float, least: float = 0.2) -> Iterator[Drawn]:
    """A fifth of the tasks reacts, in either direction; an effect is more reacting tasks, all of them improving."""
    for task in range(tasks):
        easy, share = rng.random() < 0.5, max(least, effect / 0.8)
        rates = (0.98, 0.98) if easy else (0.02, 0.02)
        if rng.random() < share:
            better = rng.random() < 0.5 + effect / share / 1.6
            rates = (0.9, 0.1) if better else (0.1, 0.9)
        yield from passes(rng, task, repeats, rates)


def draw_weak(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """The weaker of two models seldom passes, and half of its runs in the second arm have no value."""
    for task in range(tasks):
        for model, rate in (("strong", 0.6), ("weak", 0.05)):
            for one in passes(rng, task, repeats, (rate + effect, rate), model=model):
                lost = model == "weak" and one.arm == "b" and rng.random() < 0.5
                yield one._replace(value=None) if lost else one


def draw_failing(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """The provider fails for one run in four, never for both of a pair: half of the pairs are left."""
    failed = {
        (f"t{task}", arm, repeat)
        for repeat in range(repeats)
        for place, task in enumerate(rng.sample(range(tasks), tasks // 4 * 2))
        for arm in "ab"[place % 2]
    }
    for draw in draw_uneven(rng, tasks, repeats, effect):
        yield draw._replace(ended="failed") if (draw.task, draw.arm, draw.repeat) in failed else draw


def draw_silent(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """In the first arm, six in ten failed runs have no value."""
    for draw in draw_uneven(rng, tasks, repeats, effect):
        yield draw._replace(value=None) if draw.arm == "a" and not draw.value and rng.random() < 0.6 else draw


def draw_clusters(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Three clusters in four are single, worsening tasks, the others six improving ones: over tasks, the effect."""
    task = 0
    for cluster in range(max(1, round(tasks / 2.25))):
        tasks_of_it, gain = rng.choice(((1, -0.2), (1, -0.2), (1, -0.2), (6, 0.1)))
        gain += rng.gauss(effect, 0.3)
        for _ in range(tasks_of_it):
            task, level = task + 1, rng.gauss(0, 1)
            for arm in "ab":
                for repeat in range(repeats):
                    value = level + rng.gauss(gain * (arm == "a"), 0.3)
                    yield Drawn(f"t{task}", arm, value, repeat, cluster=f"c{cluster}")


def draw_errors(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Lower is better: minus the errors of a run. A limit ends one run in four of the second arm."""
    for task in range(tasks):
        level = rng.uniform(3, 9)
        for arm in "ab":
            for repeat in range(repeats):
                ended = "limited" if arm == "b" and rng.random() < 0.25 else "completed"
                yield Drawn(f"t{task}", arm, effect * (arm == "a") - max(0, round(rng.gauss(level, 1.5))), repeat, ended=ended)


def draw_lognormal(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Costs of equal means: in the second arm most runs cost less and some far more."""
    for task in range(tasks):
        for arm, spread in (("a", 0.3), ("b", 1.2)):
            for repeat in range(repeats):
                yield Drawn(f"t{task}", arm, effect * (arm == "a") + exp(rng.gauss(-(spread**2) / 2, spread)), repeat)


def draw_ties(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Marks of none, half or all, seven in ten of them the same in both arms; an effect raises some by a half."""
    for task in range(tasks):
        mark, raised = rng.choice((0, 0.5)), max(0.0, effect)
        for repeat in range(repeats):
            for arm in "ab":
                other = mark if rng.random() < 0.84 else rng.choice((0, 0.5))
                yield Drawn(f"t{task}", arm, other + 0.5 * (arm == "a" and rng.random() < 2 * raised), repeat)


def draw_full(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Every run passes."""
    for task in range(tasks):
        yield from passes(rng, task, repeats, (1, 1))


def draw_repeats(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Vary repeats from one to all, equally in both arms of a task."""
    for task in range(tasks):
        rate = rng.choice((0.05, 0.2, 0.4, 0.6, 0.75))
        yield from passes(rng, task, rng.randint(1, repeats), (lifted(rate, effect, 0.4), rate))


def draw_models(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Two models find the same tasks hard, and react in opposite directions."""
    for task in range(tasks):
        level = rng.uniform(-0.15, 0.15)
        for model, rate, gain in (("one", 0.3 + level, 0.15), ("two", 0.5 + level, -0.15)):
            yield from passes(rng, task, repeats, (lifted(rate, effect, 0.4) + gain, rate), model=model)


def draw_nested(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Recorded workflows with three nested runs each, which share its outcome."""
    for draw in draw_uneven(rng, tasks, repeats, effect):
        yield draw._replace(nested=3)


def draw_benchmarks(rng: Random, tasks: int, repeats: int, effect: float) -> Iterator[Drawn]:
    """Recorded runs of two benchmarks with equal task numbers; the second arm lacks most of the easy one."""
    for task in range(tasks):
        benchmark, rate = (("airline", 0.1), ("retail", 0.4))[task % 2]
        is_short = task % 2 == 1 and rng.random() < 0.75
        for one in passes(rng, task // 2, repeats, (rate + effect, rate), benchmark=benchmark):
            if not (is_short and one.arm == "b"):
                yield one._replace(task=str(task // 2))


WORLDS = {
    "null": World(draw_uneven, tasks=15, effect=0.0),
    "equal effect": World(draw_alike, tasks=29, is_assumed=True),
    "four tasks": World(draw_uneven, tasks=4, is_crossed=False),
    "six tasks": World(draw_alike, tasks=6, effect=0.5, is_crossed=False),
    "hundred tasks": World(draw_uneven, tasks=100, effect=0.1, is_crossed=False),
    "few tasks react": World(draw_few, excuse="heavy tails", limit=0.8),
    "hardly any reacts": World(
        partial(draw_few, least=0.1), tasks=12, repeats=5, effect=0.08, excuse="heavy tails", limit=0.08
    ),
    "one model weak": World(draw_weak, tasks=29, limit=0.4),
    "missing at random": World(draw_failing, tasks=60, effect=0.3),
    "missing for one arm": World(draw_silent, excuse="missing"),
    "unequal clusters": World(draw_clusters, tasks=60, excuse="heavy tails", limit=inf),
    "less is better": World(draw_errors, tasks=15, effect=1.0, limit=inf),
    "lognormal": World(draw_lognormal, tasks=29, excuse="heavy tails", limit=inf),
    "ties": World(draw_ties, limit=0.5),
    "all pass": World(draw_full, effect=0.0),
    "one to five repeats": World(draw_repeats, tasks=15, repeats=5),
    "two models": World(draw_models, tasks=15, limit=0.43),
    "nested runs": World(draw_nested, tasks=15, is_recorded=True),
    "two benchmarks": World(draw_benchmarks, is_recorded=True),
}


# Calls of the package


def compared(drawn: list[Drawn], *, is_recorded: bool = False) -> Comparison:
    """Compare drawn runs."""
    if is_recorded:
        arms = [[run for one in drawn if one.arm == arm for run in _recorded(one)] for arm in "ab"]
        return compare(*arms)
    return compare(results_from([_row(one) for one in drawn]), "a", "b")


def _row(one: Drawn) -> Any:
    stop_reason = {"completed": "natural", "limited": "max_rounds", "failed": "server_error"}[one.ended]
    ids = dict.fromkeys(("key", "run_id", "digest"), one.key)
    about = {"model": one.model, "cluster": one.cluster, "seed": one.repeat + 1}
    return row(one.arm, one.task, one.value, one.repeat, **ids, **about, status=one.ended, stop_reason=stop_reason)


@lru_cache(maxsize=100_000)
def _recorded(one: Drawn) -> tuple[Run, ...]:
    about: dict[str, Any] = {"tags": (f"task:{one.task}",)}
    if one.benchmark:
        trial = str(one.repeat + 1)
        about = {"origin": e.Origin("inspect", f"{one.benchmark}.eval", f"{one.task}-{trial}", one.task, trial)}
    nested = [_run(f"{one.key}-{n}", f"Part {n} of {one.task}.", one, parent_id=one.key) for n in range(one.nested)]
    return _run(one.key, f"Do {one.task}.", one, **about), *nested


def _run(key: str, prompt: str, one: Drawn, parent_id: str | None = None, **fields: Any) -> Run:
    of_run: dict[str, Any] = {"at": START, "run_id": key, "parent_id": parent_id}
    begun = e.RunStarted(seq=0, schema=e.SCHEMA, model=one.model, prompt=user(prompt), **of_run, **fields)
    assessment = Assessment("passed" if one.value else "failed", "trace")
    said = [] if one.value is None else [OutcomeGiven(seq=1, assessment=assessment, **of_run)]
    ended = e.RunFinished(seq=1 + len(said), status=one.ended, stop_reason="natural", **of_run)  # type: ignore[arg-type]
    return Run.from_events([begun, *said, ended])


# Its results


class Measured(NamedTuple):
    """Counts of right comparisons in a world, by kind."""

    errors: int
    """Comparisons without an effect that show one, without a stated excuse."""
    misses: int
    """Comparisons with an effect outside their interval, without a stated excuse."""
    hits: int
    """Comparisons with an effect that show it."""
    numbers: int
    """Comparisons with an effect that have a number: the stated power applies to them."""
    effect: float
    """The effect stated by comparisons without one, if the world can have it; otherwise the world's own."""
    stated: float | None
    """Missing also if the world cannot have the stated effect."""
    excused: int
    """Comparisons without an effect that excuse an error."""
    split: int
    """Comparisons whose p value and interval disagree."""


def measure(name: str, draws: int, tasks: int = 0, repeats: int = 0, statements: int = 1) -> Measured:
    """Make this many comparisons without an effect, and as many with the usual minimum effect."""
    world = WORLDS[name]
    size = (tasks or world.tasks, repeats or world.repeats)

    def asked(kind: str, effect: float) -> list[Comparison]:
        """Make comparisons of one kind; seeds are fixed in advance, separate for each world and kind."""
        runs = [[*world.draw(Random(f"{name} {size} {kind} {number}"), *size, effect)] for number in range(draws)]
        return [compared(drawn, is_recorded=world.is_recorded) for drawn in runs]

    def excused(one: Comparison) -> bool:
        return bool(world.excuse) and world.excuse in excuses(one)

    nulls = asked("without", 0.0)
    given = [effect for one in typical(nulls, statements) if (effect := one.mde) is not None]
    stated = fmean(given) if given and fmean(given) <= world.limit else None
    effect = world.effect and (stated or world.effect)
    found = asked("with", effect) if effect else nulls
    return Measured(
        errors=sum(shows(comparison) and not excused(comparison) for comparison in nulls),
        misses=sum(misses(one, effect) and not excused(one) for one in found),
        hits=sum(map(shows, found)),
        numbers=sum(one.p_value is not None for one in found),
        effect=effect,
        stated=stated,
        excused=sum(map(excused, nulls)),
        split=sum(
            comparison.interval is not None and shows(comparison) != misses(comparison, 0.0) for comparison in (*nulls, *found)
        ),
    )


def typical(found: list[Comparison], count: int) -> list[Comparison]:
    """Return this many comparisons, spread evenly over the interval widths; a single one is the median."""
    known = sorted((one for one in found if one.interval is not None), key=lambda one: one.interval[1] - one.interval[0])
    return [known[(2 * place + 1) * len(known) // (2 * count)] for place in range(count)] if known else found[:count]


def shows(one: Comparison) -> bool:
    """Return True if it shows a difference."""
    return one.p_value is not None and one.p_value < 0.05


def misses(one: Comparison, effect: float) -> bool:
    """Return True if its interval excludes the effect; no interval claims nothing."""
    return one.interval is not None and not one.interval[0] <= effect <= one.interval[1]


def excuses(one: Comparison) -> set[str]:
    """Return the comparison's own reasons for a larger error."""
    shares = {states["scored"] / sum(states.values()) for states in one.counts.values()}
    is_skewed = isinstance(one.analysis, Difference) and one.analysis.is_skewed is not False
    return {*(["missing"] if one.could_turn or len(shares) > 1 else []), *(["heavy tails"] if is_skewed else [])}
