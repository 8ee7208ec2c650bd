"""Exports round-trip: each form returns all that it can represent, for one run and for several in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from exported_runs import RUNS, family
from property_settings import size
from round_trips import ASPECTS, HOLDS, check
from run_builder import RunBuilder

from agentnb import Run, load_trace, load_traces, save_trace
from agentnb.core.log.events import ForkedFrom
from agentnb.interchange.exports import EXPORTS

SAMPLES = Path(__file__).parents[1] / "formats" / "files"
NOT_HELD = {
    ("anthropic_messages", "authors"): {"said", "replies"},  # its messages have no names
    ("otel", "broken_off"): {"times"},  # incomplete replies get the time of their last part
    ("openinference", "broken_off"): {"times"},
    ("openai_chat", "continued"): {"calls", "result texts", "thinking"},  # the history becomes rounds of the run
    ("anthropic_messages", "continued"): {"calls", "result texts", "thinking", "what providers want back"},
}
"""Parts of a run that a form cannot represent."""


@pytest.mark.req("R0.83")
def test_every_export_format_has_a_round_trip_test() -> None:
    assert set(EXPORTS) == {"sam", *HOLDS}


@pytest.mark.req("R0.83")
def test_formats_preserve_everything_they_can_represent(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for form, aspects in HOLDS.items():
        for name, make in RUNS.items():
            with subtests.test(f"{name} as {form}"):
                run = make()
                back = load_trace(save_trace(run, tmp_path / "run", form))
                check(run, back, aspects - NOT_HELD.get((form, name), set()))


@pytest.mark.req("R0.83")
def test_runs_survive_a_parquet_round_trip(tmp_path: Path) -> None:
    runs = [make() for make in RUNS.values()]
    for run in runs:
        assert load_trace(save_trace(run, tmp_path / "run.parquet")) == run
    assert load_traces(save_trace(runs, tmp_path / "all.parquet")) == runs


@pytest.mark.req("R0.83")
def test_several_runs_can_share_one_file(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for form, aspects in HOLDS.items():
        with subtests.test(form):
            left_out = {name for of, name in NOT_HELD if of == form}
            runs = [make() for name, make in RUNS.items() if name not in left_out]
            back = load_traces(save_trace(iter(runs), tmp_path / "runs", form))
            assert len(back) == len(runs) and not back.problems
            for aspect in {"calls", "replies", "model", "system", "end"} & aspects:
                assert sorted(map(repr, map(ASPECTS[aspect], back))) == sorted(map(repr, map(ASPECTS[aspect], runs)))


@pytest.mark.req("R0.83")
def test_nested_runs_stay_nested_if_the_format_has_ids(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for form in ("otel", "openinference", "parquet", "openai_chat", "anthropic_messages"):
        for runs in (family(), family()[::-1]):
            with subtests.test(form):
                path = save_trace(runs, tmp_path / "runs", form)
                back = {run.id: run for run in load_traces(path)}
                assert {run.id: run.parent_id for run in back.values()} == {"top": None, "inner": "top", "innermost": "inner"}
                assert load_trace(path).id == "top"
                for run in runs:
                    check(run, back[run.id], HOLDS[form])


def conversation(run: Run) -> list[Any]:
    """Return the messages of a run with their calls."""
    calls = [[(call.id, call.name, call.arguments) for call in message.calls] for message in run.messages]
    return [(one.role, one.author, one.text, each) for one, each in zip(run.messages, calls, strict=True)]


def test_runs_of_other_products_survive_a_span_round_trip(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for folder in sorted(path for path in SAMPLES.iterdir() if path.is_dir() and path.name != "licences"):
        runs = load_traces(folder)
        for form in ("otel", *size((), nightly=("openinference",))):
            with subtests.test(f"{folder.name} as {form}"):
                for run in runs:
                    back = load_trace(save_trace(run, tmp_path / "run", form))
                    assert conversation(back) == conversation(run)
                    assert (back.prompt, back.system, back.usage, back.status) == (
                        run.prompt,
                        run.system,
                        run.usage,
                        run.status,
                    )


def test_spans_record_the_run_that_was_forked(tmp_path: Path) -> None:
    run = RunBuilder("Go", forked_from=ForkedFrom("r-0", 1)).round("Done.").run
    for form in ("otel", "openinference"):
        assert load_trace(save_trace(run, tmp_path / "run", form)).forked_from == ForkedFrom("r-0", 1)
