"""Judges. Guided by a rubric, a model decides whether a run did its task, or which of two runs did it better, without knowing
their variants.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from agentnb.agent.agent import Agent
from agentnb.agent.extension import Extension
from agentnb.core.redaction import redact
from agentnb.core.run.timeline import JUDGE
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError
from agentnb.experiments.judging.preferences import RUN_1, RUN_2, TIE, Choice, Preferences, agree, preferences_of
from agentnb.experiments.judging.quality import quality_of
from agentnb.experiments.judging.run_text import run_block
from agentnb.experiments.planning.content_hash import content_hash
from agentnb.experiments.planning.judge_verdicts import FAILED, PASSED, UNKNOWN, Asked, AskedCheck, Bench, Verdict, Verdicts
from agentnb.experiments.planning.variants import name_of
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.corrections import JudgeQuality
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.judged_rows import bench_of, gather_limited
from agentnb.experiments.results.rows import Row
from agentnb.guidance.prompts import prompt
from agentnb.interchange.files import RunSource, load_traces
from agentnb.models.model import Model
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.threads import LoopThread
from agentnb.store.run_labels import LabelSource

if TYPE_CHECKING:
    import pandas as pd

ONE, PAIR = "judge", "judge_pair"
"""Names of a judge's prompts."""
ANSWERS = {ONE: (PASSED, FAILED, UNKNOWN), PAIR: (RUN_1, RUN_2, TIE, UNKNOWN)}
"""The verdicts that each prompt allows."""


@dataclass(frozen=True, eq=False)
class Judge(AskedCheck):
    """Judges runs with a model and a rubric; used as a check of an experiment or of recorded runs.

    ``model``: a name, ``provider:model``, or a model object. ``rubric``: what a run must do to pass, in words. ``name``: the
    name of the check. The judge sees prompts, replies, calls and results as text, but never the name, guidance, policy or tags
    of a variant. Only its structured reply counts as a verdict; an error, a refusal or anything else is unknown. Its calls are
    runs with the operation ``judge``, stored in ``.judging`` within the folder of the runs. Verdicts are cached by the contents
    of run, rubric and model, so judging again costs nothing. Raises `SettingsError` if the settings are invalid.

        Experiment(tasks, variants, primary=Judge("openai:NAME", "The answer names the largest city, with its source."))
    """

    model: str | Model
    rubric: str
    name: str = JUDGE

    def __post_init__(self) -> None:
        for key in ("rubric", "name"):
            value = getattr(self, key)
            if not isinstance(value, str) or not value.strip():
                raise SettingsError(
                    f"The judge's {key} must be a string, got {value!r}", 'Write Judge(model, "The answer names ...")'
                )
        self._agents  # noqa: B018  # refuses an unknown model

    @property
    def __name__(self) -> str:
        return self.name

    @cached_property
    def content(self) -> str:
        """Hash of the model, the rubric and the prompts around it."""
        return content_hash(name_of(self.model), *[agent.system for agent in self._agents.values()])

    @cached_property
    def _agents(self) -> dict[str, Agent]:
        return {kind: self._agent(kind) for kind in ANSWERS}

    def _agent(self, kind: str) -> Agent:
        fields = {"reason": {"type": "string"}, "verdict": {"type": "string", "enum": [*ANSWERS[kind]]}}
        schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
        return Agent(
            self.model,
            system=prompt(kind).replace("{{ rubric }}", self.rubric.strip()),
            guidance="off",
            policy="minimal",
            todos=False,
            instructions=False,
            output=schema,
            name=JUDGE,
            extensions=[Extension(name=JUDGE)],
        )

    # One run

    async def ask(self, run: Run, bench: Bench, task: str) -> Asked:
        """Return the verdict on a run, from the cache if possible."""
        return await self._ask(ONE, run_block(run, "run", task), bench, f"judged:{run.id}")

    def kept(self, run: Run, verdicts: Verdicts) -> Verdict | None:
        """Return the cached verdict on a recorded run, if any."""
        return verdicts.get(self._key(ONE, run_block(run, "run", run.prompt)))

    def __call__(self, run: Run) -> bool | None:
        """Return whether the run passed, or None if unknown. Caches nothing, and blocks until the reply arrives."""
        thread = LoopThread()
        try:
            return thread.submit(lambda: self.ask(run, Bench(), run.prompt)).result().verdict.value
        finally:
            thread.close()

    async def assess(self, source: RunSource, *, budget: float | None = None) -> pd.DataFrame:
        """Judge recorded runs; return one row per run, with ``run_id``, ``verdict``, ``reason``, ``judge_run``, ``cost``,
        ``error``.

        ``budget``: US dollars for new calls; cached verdicts cost nothing. Judging stops when it is spent.
        """
        import pandas as pd

        runs, bench = load_traces(source), bench_of(source, None if budget is None else Budget(budget))
        asked = await gather_limited([partial(self.ask, run, bench, run.prompt) for run in runs])
        rows = [
            (run.id, reply.verdict.answer, reply.verdict.reason, reply.verdict.run_id, _cost(reply), reply.verdict.error)
            for run, reply in zip(runs, asked, strict=True)
        ]
        return pd.DataFrame(rows, columns=["run_id", "verdict", "reason", "judge_run", "cost", "error"])

    # Two runs

    async def choose(self, run: Run, other: Run, *, budget: float | None = None) -> Choice:
        """Return the better of two runs of a task: ``a``, ``b`` or ``tie``, or None if unknown.

        The judge is asked twice, the second time with the sides swapped; answers that disagree count as a tie.
        """
        return await self._choose(run, other, Bench(spending=None if budget is None else Budget(budget)))

    async def prefer(self, comparison: Comparison, *, budget: float | None = None) -> Preferences:
        """Choose between the runs of each pair in a comparison; return the share that prefers a minus the share that prefers b.

        Ties count as 0. Pairs with an unknown verdict or a missing run are left out and counted.
        """
        verdicts = None if comparison.records is None else comparison.records.verdicts
        spending = None if budget is None else Budget(budget)
        bench = Bench(spending=spending) if verdicts is None else Bench(verdicts, spending)
        pairs = [(a.row, b.row) for a, b in comparison.pairs if a.row.run_id and b.row.run_id]
        choices = await gather_limited([partial(self._choose_of, comparison, a, b, bench) for a, b in pairs])
        return preferences_of(comparison, pairs, choices)

    async def _choose_of(self, comparison: Comparison, a: Row, b: Row, bench: Bench) -> Choice:
        return await self._choose(comparison.run(a.run_id), comparison.run(b.run_id), bench)

    async def _choose(self, run: Run, other: Run, bench: Bench) -> Choice:
        task = run.prompt if run.prompt == other.prompt else ""  # the prompt would reveal the variant
        if run_block(run, "run", task) == run_block(other, "run", task):
            return TIE
        answers = []
        for first, second in ((run, other), (other, run)):
            text = f"{run_block(first, RUN_1, task)}\n\n{run_block(second, RUN_2, task)}"
            answers.append((await self._ask(PAIR, text, bench, f"judged:{first.id}", f"judged:{second.id}")).verdict.answer)
        return agree(*answers)

    # Its quality

    def quality(self, labels: LabelSource, runs: Results | RunSource | None = None) -> JudgeQuality:
        """Compare the judge's verdicts (passed or failed) with people's labels (healthy or failed): sensitivity, specificity
        and kappa.

        ``labels``: a file of labels, or the result of `agentnb.labels`. ``runs``: the results of an experiment, or recorded
        runs (only labelled ones are used); by default, the runs in the folder of the file. Asks no model: runs without a cached
        verdict are counted. Pass the result to `compare`, as in ``compare(results, A, B, quality=...)``, to correct for the
        judge's errors.
        """
        return quality_of(self, labels, runs)

    async def _ask(self, kind: str, text: str, bench: Bench, *tags: str) -> Asked:
        key = self._key(kind, text)
        async with bench.verdicts.lock(key):
            if (kept := bench.verdicts.get(key)) is not None:
                return Asked(kept, was_kept=True)
            verdict = await self._run(kind, key, text, bench, (JUDGE, *tags, *bench.tags))
            if not verdict.error:
                bench.verdicts.keep(verdict)
            return Asked(verdict, was_kept=False)

    def _key(self, kind: str, text: str) -> str:
        """Return the cache key of a verdict: a hash of the runs, the model, and the rubric with its prompt."""
        return content_hash(name_of(self.model), self._agents[kind].system, text)

    async def _run(self, kind: str, key: str, text: str, bench: Bench, tags: tuple[str, ...]) -> Verdict:
        options = RunOptions(store=bench.verdicts.store, show=False, tags=tags, can_ask=False, budget=bench.spending)
        clock = asyncio.timeout(bench.seconds)
        try:
            async with clock:
                run = await self._agents[kind].run(text, options)
        except StoreError:  # a full disk must not count as a verdict
            raise
        except Exception as error:  # whatever the model raises: the run stays unknown
            failed = getattr(error, "run", None)
            cost = failed.cost if isinstance(failed, Run) else 0.0 if isinstance(error, SettingsError) else None  # not begun
            why = f"the judge took longer than {bench.seconds} s" if clock.expired() else str(error)
            return _without_answer(key, f"{type(error).__name__}: {why}", cost)
        if run.status != "completed" or run.output is None:
            why = run.error.message if run.error is not None else run.stop_reason or run.status
            return _without_answer(key, f"The judge returned no verdict: {why}", run.cost, run.id)
        return redact(Verdict(key, run.output["verdict"], run.output["reason"], run.id, run.cost))


def _without_answer(key: str, why: str, cost: float | None, run_id: str = "") -> Verdict:
    return Verdict(key, run_id=run_id, cost=cost, error=redact(why).partition("\n")[0][:300])


def _cost(asked: Asked) -> float | None:
    return 0.0 if asked.was_kept else asked.verdict.cost
