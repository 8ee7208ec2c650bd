"""Assignment of variants: to complete runs or, if they are guidance sets, at random to the rounds of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agentnb.agent.agent import Agent
from agentnb.errors import AgentnbError, SettingsError
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.near_outcomes import FOLLOWED, find_near_outcome
from agentnb.experiments.planning.variants import Variant, read_variants, variants_by_name
from agentnb.guidance.draws import ASSIGN, RandomGuidance
from agentnb.guidance.sets import GuidanceSet, find_set
from agentnb.models.model import Model
from agentnb.policies.policy_sets import NAMED, OWN_POLICY
from agentnb.runtime.host.host import host_here

DRAWN = "drawn"
"""Name of the single arm in experiments that draw by round, where each run meets all sets."""


class Assignment(NamedTuple):
    """The assignment settings of an experiment, as the user passed them."""

    assign: Any = "run"
    propensities: Any = None
    """The probability of each variant, or None if they are equal."""
    near_outcome: Any = None

    @property
    def is_by_round(self) -> bool:
        """True if a set is drawn for each round."""
        return bool(self.assign == "round")

    @property
    def frozen(self) -> dict[str, Any]:
        """The frozen settings apart from the variants; empty if variants are assigned to complete runs."""
        return {"assign": "round", "near_outcome": self.near_outcome or FOLLOWED} if self.is_by_round else {}

    def count_compared(self, variants: Sequence[Variant]) -> int:
        """Return the number of variants to compare; 2 for sets drawn by round, which share one arm."""
        return 2 if self.is_by_round else len(variants)

    def read_variants(
        self, definitions: Any, base: Any, models: Iterable[str | Model], problems: list[str], *, aa: bool
    ) -> tuple[Variant, ...]:
        """Return the variants, or the single arm whose runs draw a set for each round; problems are appended."""
        if self.assign not in ASSIGN:
            problems.append(f"assign={self.assign!r}: choose {' or '.join(ASSIGN)}")
        if not self.is_by_round:
            problems += [
                f'{name}= applies only to assign="round": set that, or leave {name}= out'
                for name in ("propensities", "near_outcome")
                if getattr(self, name) is not None
            ]
            return read_variants(definitions, base, models, problems)
        try:
            find_near_outcome(self.near_outcome or FOLLOWED)
        except SettingsError as error:
            problems.append(str(error))
        drawn = self._random_guidance(definitions, problems, aa=aa)
        return () if drawn is None else read_variants({DRAWN: {"guidance": drawn}}, base, models, problems)

    def _random_guidance(self, definitions: Any, problems: list[str], *, aa: bool) -> RandomGuidance | None:
        named, before = variants_by_name(definitions, problems), len(problems)
        sets = {str(name): words for name, value in named.items() if (words := _set_of(str(name), value, problems)) is not None}
        propensities = self.propensities
        if propensities is None:
            propensities = dict.fromkeys(sets, 1 / max(1, len(sets)))
        elif not isinstance(propensities, Mapping) or {*propensities} != {*map(str, named)}:
            problems.append(f"propensities={propensities!r}: give one for each of the variants {', '.join(map(str, named))}")
        if not aa and len({words.version for words in sets.values()}) < len(sets):
            problems.append("Two of the guidance sets are equal. To see what chance alone does: aa=True")
        if len(problems) > before:
            return None
        try:
            return RandomGuidance(_by_set(sets, propensities), "round")
        except SettingsError as error:
            problems.append(str(error))
            return None

    def problems(self, tasks: Sequence[ExperimentTask], variants: Sequence[Variant]) -> Iterable[str]:
        """Yield the problems of this assignment with these tasks and variants."""
        if not self.is_by_round:
            return
        if any(task.run is not None for task in tasks):
            yield 'assign="round": forks of recorded runs have rounds without a draw. Give prompts, or assign="run"'
        for policy in [variant.work.settings["policy"] for variant in variants if isinstance(variant.work, Agent)]:
            if OWN_POLICY in policy:
                hint = f"Give one of {', '.join(NAMED)}"
                yield f'assign="round": lift cannot replay the policy {policy["name"]}, which is your own. {hint}'


def _set_of(name: str, definition: Any, problems: list[str]) -> GuidanceSet | None:
    """Return the guidance set of a variant. Other kinds of variants are a problem, since they cannot change from round to
    round.
    """
    if not isinstance(definition, str | GuidanceSet):
        kind = "settings" if isinstance(definition, Mapping) else type(definition).__name__
        problems.append(
            f'Variant {name} is {kind}: assign="round" draws guidance sets only: all else is fixed within a run.'
            ' Compare it with assign="run"'
        )
        return None
    try:
        return find_set(definition, host_here().sets)
    except AgentnbError as error:
        problems.append(f"Variant {name}: {error}")
        return None


def _by_set(sets: Mapping[str, GuidanceSet], propensities: Mapping[str, float]) -> dict[GuidanceSet, float]:
    """Return the propensity of each set. Raises `SettingsError` if two variants name the same set."""
    if len({*sets.values()}) < len(sets):
        raise SettingsError("Two variants name the same guidance set", "Give each set its own name: GuidanceSet(name, {...})")
    return {words: propensities[name] for name, words in sets.items()}
