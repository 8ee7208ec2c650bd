"""Recorded outcomes of runs, by format."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from benchmark_files import FILES, loaded, runs_of

from agentnb import Run, load_trace, load_traces, save_trace, tables

CHAT = [{"role": "user", "content": "Cancel W1."}, {"role": "assistant", "content": "Done. ###STOP###"}]


def outcome(run: Run) -> tuple[Any, ...]:
    return run.outcome, run.score, run.outcome_from, run.assessment.name if run.assessment else ""


def tau(reward: Any) -> dict[str, Any]:
    return {"task_id": 7, "trial": 2, "reward": reward, "info": {}, "traj": CHAT}


def tau2(reward: Any) -> dict[str, Any]:
    one = {"task_id": "7", "trial": 0, "messages": CHAT, "termination_reason": "user_stop", "reward_info": reward}
    return {"info": {}, "tasks": [], "simulations": [one]}


def inspect(scores: Any) -> dict[str, Any]:
    sample = {"id": 1, "epoch": 1, "messages": CHAT, "scores": scores}
    return {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": [sample]}


def openhands(**fields: Any) -> tuple[dict[str, Any], ...]:
    action = {"id": 0, "source": "user", "action": "message", "args": {"content": "Fix it."}}
    answer = {"id": 1, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}}
    one = {"history": [action, answer], "metrics": {}, "instance_id": "a"} | fields
    return one, one


def named_agents(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in loaded("magentic/named_agents.json").items() if name != "is_correct"} | fields


def test_outcome_is_read_from_the_record_of_each_format(tmp_path: Path, subtests: pytest.Subtests) -> None:
    nothing = ("unknown", None, None, "")
    cases: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "tau-bench, full reward": ([tau(1.0)], ("passed", 1.0, "trace", "reward")),
        "tau-bench, none": ([tau(0.0)], ("failed", 0.0, "trace", "reward")),
        "tau-bench, a part of it": ([tau(0.5)], ("unknown", 0.5, "trace", "reward")),
        "tau-bench, no number": ([tau(None)], nothing),
        "tau2-bench, full reward": (tau2({"reward": 1.0}), ("passed", 1.0, "trace", "reward")),
        "tau2-bench, none": (tau2({"reward": 0.0}), ("failed", 0.0, "trace", "reward")),
        "tau2-bench, no reward": (tau2(None), nothing),
        "Inspect, correct": (inspect({"match": {"value": "C"}}), ("passed", 1.0, "trace", "match")),
        "Inspect, incorrect": (inspect({"match": {"value": "I"}}), ("failed", 0.0, "trace", "match")),
        "Inspect, partially": (inspect({"match": {"value": "P"}}), ("unknown", 0.5, "trace", "match")),
        "Inspect, a number": (inspect({"f1": {"value": 0.25}}), ("unknown", 0.25, "trace", "f1")),
        "Inspect, another scale": (inspect({"points": {"value": 7}}), ("unknown", 7.0, "trace", "points")),
        "Inspect, a truth": (inspect({"check": {"value": True}}), ("passed", None, "trace", "check")),
        "Inspect, two scorers that differ": (
            inspect({"match": {"value": "C"}, "f1": {"value": 0}}),
            ("unknown", None, "trace", "match, f1"),
        ),
        "Inspect, several values": (inspect({"all": {"value": {"a": 1, "b": 0}}}), nothing),
        "Inspect, words": (inspect({"tone": {"value": "kind"}}), nothing),
        "Who&When, correct": (named_agents(is_correct=True), ("passed", None, "trace", "is_correct")),
        "Who&When, wrong": (named_agents(is_correct=False), ("failed", None, "trace", "is_correct")),
        "Who&When, not said": (named_agents(), nothing),
        "OpenHands, an issue that was resolved": (openhands(success=True), ("passed", None, "trace", "success")),
        "OpenHands, tests that failed": (
            openhands(test_result={"report": {"resolved": False}}),
            ("failed", None, "trace", "resolved"),
        ),
        "OpenHands, not tested": (openhands(test_result={"git_patch": ""}), nothing),
    }
    for name, (data, said) in cases.items():
        with subtests.test(name):
            run = runs_of(tmp_path / "trace.json", data)[0]
            assert outcome(run) == said
            again = load_trace(save_trace(run, tmp_path / "again.jsonl"))
            assert outcome(again) == said and again == run


def test_interrupted_run_keeps_its_recorded_outcome(tmp_path: Path) -> None:
    broken = tau(0.0) | {"traj": CHAT[:1]}
    run = runs_of(tmp_path / "trace.json", [broken])[0]
    assert (run.status, run.outcome) == ("interrupted", "failed")


def test_reward_file_beside_an_atif_trajectory_sets_the_outcome(tmp_path: Path, subtests: pytest.Subtests) -> None:
    trajectory = (FILES / "atif/research.json").read_text("utf-8")
    nothing = ("unknown", None, None, "")
    cases: dict[str, tuple[dict[str, str], tuple[Any, ...]]] = {
        "result.json": (
            {"result.json": json.dumps({"verifier_result": {"rewards": {"reward": 0.0}}})},
            ("failed", 0.0, "trace", "reward"),
        ),
        "reward.txt": ({"verifier/reward.txt": "1\n"}, ("passed", 1.0, "trace", "reward")),
        "reward.json": ({"verifier/reward.json": '{"tests": 0.5}'}, ("unknown", 0.5, "trace", "tests")),
        "not verified": ({"result.json": '{"verifier_result": null}'}, nothing),
        "no number": ({"verifier/reward.txt": "none"}, nothing),
        "nothing": ({}, nothing),
    }
    for name, (beside, said) in cases.items():
        with subtests.test(name):
            shutil.rmtree(tmp_path / "job", ignore_errors=True)
            for path, text in ({"agent/trajectory.json": trajectory} | beside).items():
                file = tmp_path / "job/trial" / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            runs = load_traces(tmp_path / "job/trial/agent/trajectory.json")
            assert len(runs) > 1 and outcome(runs[0]) == said
            assert {outcome(run) for run in runs[1:]} == {nothing}
            with ZipFile(tmp_path / "job.zip", "w") as archive:
                for file in sorted((tmp_path / "job").rglob("*.*")):
                    archive.write(file, str(file.relative_to(tmp_path / "job")))
            assert outcome(load_traces(tmp_path / "job.zip", strict=False)[0]) == said


def test_numbered_tasks_include_their_benchmark_or_file_name(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Also compressed; unique task ids need no benchmark name."""
    domain = {"environment_info": {"domain_name": "airline"}}
    mad = {"trace_id": 1, "mas_name": "AG2", "trace": "It says.", "benchmark_name": "GSM-Plus"}
    chat = {"id": "1", "conversations": [{"from": "human", "value": "Go"}, {"from": "gpt", "value": "Done."}]}
    for name, value, expected in (
        ("gpt-4.1-retail.json", [tau(1.0)], "gpt-4.1-retail"),
        ("airline.jsonl", (tau(1.0), tau(0.0)), "airline"),
        ("inspect.json", inspect({}), "t"),
        ("tau2.json", tau2({}) | {"info": domain}, "airline"),
        ("tau2 of before.json", tau2({}), "tau2 of before"),
        ("mad.json", [mad], "GSM-Plus"),
        ("chats.json", [chat], "chats"),
        ("openhands.jsonl", openhands(), ""),
    ):
        with subtests.test(name):
            runs = runs_of(tmp_path / name, value)
            packed = tmp_path / f"{name}.gz"
            packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
            found = {run.origin.benchmark for run in [*runs, *load_traces(packed)] if run.origin}
            assert found == {expected}
            assert [one or "" for one in tables.runs(runs)["benchmark"].fillna("")] == [expected] * len(runs)
