"""Records of MAD and MASFT: turns of AG2, logs of MetaGPT and HyperAgent, and annotated failure modes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentnb import Run, load_trace, load_traces

FILES = Path(__file__).parent / "files" / "mad"


def loaded(tmp_path: Path, record: Any) -> Run:
    (tmp_path / "x.json").write_text(json.dumps(record), encoding="utf-8")
    return load_trace(tmp_path / "x.json")


def told(run: Run) -> list[tuple[str, str, str]]:
    return [(message.role, message.author, message.text) for message in run.messages]


def test_ag2_roles_are_inverted_and_contents_may_be_lines(tmp_path: Path) -> None:
    turns = [
        {"role": "assistant", "name": "mathproxyagent", "content": ["Solve:", "1 + 1"]},
        {"role": "user", "name": "assistant", "content": ["It is 3."]},
        {"role": "assistant", "name": "mathproxyagent", "content": "Go on."},
        {"role": "user", "name": "assistant", "content": ["It is 2."]},
    ]
    record = {
        "instance_id": "i-1",
        "problem_statement": ["1 + 1"],
        "trajectory": turns,
        "note": {"text": ["x"], "options": {"Lost": "yes"}},
    }
    run = loaded(tmp_path, record)
    assert told(run) == [
        ("user", "mathproxyagent", "Solve:\n1 + 1"),
        ("assistant", "assistant", "It is 3."),
        ("user", "mathproxyagent", "Go on."),
        ("assistant", "assistant", "It is 2."),
    ]
    assert (
        run.settings["recorded"]["note"]["options"] == {"Lost": "yes"} and run.origin is not None and run.origin.task == "i-1"
    )


def test_only_the_task_of_an_agent_team_is_user_input() -> None:
    records = json.loads((FILES / "ag2_records.json").read_text("utf-8"))
    runs = load_traces(FILES / "ag2_records.json")
    for record, run in zip(records, runs, strict=True):
        turns = json.loads(record["trace"])["trajectory"]
        assert [message.author for message in run.messages] == [turn["name"] for turn in turns]
        assert [message.role for message in run.messages] == ["user"] + ["assistant"] * (len(turns) - 1)
        assert run.origin is not None and run.origin.task == record["trace_id"]


def test_mad_record_may_contain_json_logs_or_literal_annotations() -> None:
    turns, log = load_traces(FILES / "two_records.json")
    assert [len(run.messages) for run in (turns, log)] == [4, 6]
    assert [one.author for one in (log.rounds[0].reply and [log.rounds[0].reply]) or ()] == ["Alice(SimpleCoder)"]
    assert log.prompt == "develop a program that detects palindromes in a text file" and log.rounds[0].ended_at is not None
    modes = turns.settings["recorded"]["annotations"]
    assert isinstance(modes, list) and {"failure mode", "annotator_1"} <= modes[0].keys()


def test_metagpt_log_names_its_speakers(tmp_path: Path) -> None:
    rule = "-" * 80
    log = (
        "=== MetaGPT Agent Communication Log - Started at 2025-03-27 01:21:02 ===\n\n"
        "[2025-03-27 01:21:03] FROM: Human TO: {'<all>'}\nACTION: x\nCONTENT:\nWhich is true?\n" + rule + "\n\n"
        "[2025-03-27 01:21:11] NEW MESSAGES:\n\nSimpleCoder: \nreturn 0\n\n" + rule + "\n\n"
        "[2025-03-27 01:21:19] NEW MESSAGES:\n\nSimpleTester: assert it\n\n" + rule + "\n"
    )
    run = loaded(tmp_path, [{"mas_name": "MetaGPT", "trace_id": 3, "trace": log, "annotations": "not a literal ("}])
    assert told(run) == [
        ("user", "Human", "Which is true?"),
        ("assistant", "SimpleCoder", "return 0"),
        ("assistant", "SimpleTester", "assert it"),
    ]
    assert run.agent == "MetaGPT" and run.settings["recorded"]["annotations"] == "not a literal ("


def test_lines_repeated_by_a_restarted_hyperagent_are_read_once(tmp_path: Path) -> None:
    line = "HyperAgent_sympy-1 - INFO - Planner's Response: Thought: look"
    other = "HyperAgent_sympy-1 - INFO - Planner's Response: Thought: dig\nAction: dig()"
    record = {"instance_id": "h", "problem_statement": ["Fix it."], "trajectory": [line, line, line, *other.split("\n"), line]}
    run = loaded(tmp_path, record)
    assert [round_.text.partition("Thought: ")[2] for round_ in run.rounds] == ["look", "dig\nAction: dig()", "look"]
    assert run.prompt == "Fix it."


def test_log_of_an_unknown_kind_becomes_one_message(tmp_path: Path) -> None:
    run = loaded(tmp_path, {"instance_id": "p", "problem_statement": ["Review it."], "trajectory": ["Good.", "", "Accept."]})
    assert (run.prompt, run.text) == ("Review it.", "Good.\n\nAccept.")


def test_malformed_record_is_reported_individually(tmp_path: Path) -> None:
    records = json.loads((FILES / "ag2_records.json").read_text("utf-8"))
    (tmp_path / "x.json").write_text(json.dumps([records[0], {**records[1], "trace": 7}]), encoding="utf-8")
    runs = load_traces(tmp_path / "x.json", strict=False)
    assert len(runs) == 1 and [problem.position for problem in runs.problems] == ["1"]
    assert len(runs[0].messages) == len(json.loads(records[0]["trace"])["trajectory"])


def test_hyperagent_log_names_its_speakers_and_has_calls(tmp_path: Path) -> None:
    action = "Thought: Applying.\n\nAction:\n```python\neditor.run('a.py')\nprint(1)\n```"
    spoken = (
        "Initialized tools",
        "Planner's Response: Thought: Locate it.\nSubgoal: find it",
        f"Inner-Editor-Assistant's Response: {action}",
        f"Editor->Planner: {action}",
        "Planner's Response: Final Answer: fixed\nAction:\n```python\nnever closed",
    )
    log = "\n".join(f"HyperAgent_x__y-1 - INFO - {text}" for text in spoken)
    run = loaded(tmp_path, {"instance_id": "h", "problem_statement": ["Fix", "it."], "trajectory": log.split("\n")})
    assert [message.author for message in run.messages if message.role == "assistant"] == [
        "Planner",
        "Inner-Editor-Assistant",
        "Editor",
        "Planner",
    ]
    calls = [(call.name, call.arguments) for round_ in run.rounds for call in round_.calls]
    assert calls == [("python", {"code": "editor.run('a.py')\nprint(1)"})], "messages to the planner are not actions"
    assert [round_.text.partition("\n")[0] for round_ in run.rounds][:2] == ["Thought: Locate it.", "Thought: Applying."]
    assert run.prompt == "Fix\nit." and run.status == "unknown" and run.text.endswith("never closed")


def test_agents_answering_in_turns_are_read_exchange_by_exchange(tmp_path: Path) -> None:
    def asked(text: str) -> dict[str, str]:
        return {"role": "user", "content": text}

    def answered(text: str) -> dict[str, str]:
        return {"role": "assistant", "content": text}

    peers = {
        name: [asked("Solve 1 + 1."), answered(f"{name} says 2."), asked(f"Review {name}."), answered("Fine.")]
        for name in ("0", "1")
    }
    peers["1"].append(asked("Anything else?"))
    run = loaded(tmp_path, {"instance_id": "p", "problem_statement": ["1 + 1"], "trajectory": peers})
    assert told(run) == [
        ("user", "", "Solve 1 + 1."),
        ("assistant", "Agent 0", "0 says 2."),
        ("assistant", "Agent 1", "1 says 2."),
        ("user", "", "Review 0."),
        ("assistant", "Agent 0", "Fine."),
        ("user", "", "Review 1."),
        ("assistant", "Agent 1", "Fine."),
        ("user", "", "Anything else?"),
    ]


def test_tree_of_thoughts_log_is_read_step_by_step(tmp_path: Path) -> None:
    lines = [
        " ########## Round 1 ########## ",
        "***** Reasoner 1 output: *****",
        "Starting reasoning process for question: How much?",
        *("", "Step 1: Generation", "", 'Generated thoughts: [["a", "b"]]'),
        *("", "Step 1: Evaluation", "", "Votes for each thought: [3, 2]"),
        *("", 'Final selected thought: ["a"]', ""),
        "***** Reasoner 2 output: *****",
        *("Step 1: Generation", "", 'Generated thoughts: [["c"]]'),
        "**************************************************",
        *("Reasoner 1: Answer: 7, Verified: True", "Verifier response:", "Sound."),
        "**************************************************",
        "At least two verified reasoners agree. Final Answer: 7",
    ]
    run = loaded(tmp_path, {"instance_id": "t", "problem_statement": "How much?", "trajectory": lines})
    assert [(message.author, message.text) for message in run.messages] == [
        ("", "How much?"),
        ("Reasoner 1", "Starting reasoning process for question: How much?"),
        ("Reasoner 1", 'Step 1: Generation\n\nGenerated thoughts: [["a", "b"]]'),
        ("Reasoner 1", "Step 1: Evaluation\n\nVotes for each thought: [3, 2]"),
        ("Reasoner 1", 'Final selected thought: ["a"]'),
        ("Reasoner 2", 'Step 1: Generation\n\nGenerated thoughts: [["c"]]'),
        ("Verifier", "Reasoner 1: Answer: 7, Verified: True\nVerifier response:\nSound."),
        ("", "At least two verified reasoners agree. Final Answer: 7"),
    ]
