"""Files of other products: found in folders and archives, read within bounds, and refused with a reason."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import CHAT

from agentnb import Agent, Run, Store, load_trace, load_traces, tables
from agentnb.errors import TraceError
from agentnb.interchange import files, trace_file
from agentnb.interchange.files import iter_traces
from agentnb.interchange.formats import FORMATS
from agentnb.models import ScriptedModel
from agentnb.store import bounds

SAID = [{"role": "user", "content": "Find it."}, {"role": "assistant", "content": "It is here."}]


def chat_file(path: Path, *conversations: Any) -> Path:
    """Write a file of chat messages; several conversations become JSON Lines."""
    lines = [json.dumps({"model": "openai:x", "messages": one}) for one in conversations or (SAID,)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def said(runs: list[Run]) -> list[str]:
    return [run.text for run in runs]


def test_foreign_trace_becomes_a_run_with_its_origin(tmp_path: Path) -> None:
    path = chat_file(tmp_path / "chat.json")
    run = load_trace(path)
    assert (run.text, run.status, run.stop_reason, run.model) == ("It is here.", "unknown", None, "openai:x")
    assert run.origin is not None and (run.origin.format, run.origin.file, run.origin.position) == (
        "openai_chat",
        str(path),
        "",
    )
    assert load_trace(path).id == run.id
    (row,) = tables.runs(path).to_dict("records")
    assert (row["origin_format"], row["text"]) == ("openai_chat", "It is here.") and row["seconds"] != 0


def test_equal_prompts_in_equally_named_files_have_different_ids(tmp_path: Path) -> None:
    other = [SAID[0], {"role": "assistant", "content": "It is gone."}]
    ids = [
        load_trace(chat_file(tmp_path / name / "chat.json", one)).id for name, one in (("a", SAID), ("b", other), ("c", SAID))
    ]
    assert ids[0] == ids[2] != ids[1]


def test_runs_in_a_file_are_distinguished_by_position_and_task(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{**record, "reward": 0.0, "trial": 2} for record in CHAT]), encoding="utf-8")
    origins = [run.origin for run in load_traces(path)]
    assert [(origin.position, origin.task, origin.trial) for origin in origins if origin] == [("0", "4", "2"), ("1", "5", "2")]
    with pytest.raises(TraceError, match=r"results\.json contains 2 runs\. Load all of them: load_traces\("):
        load_trace(path)


def test_files_are_found_in_folders_subfolders_archives_and_compressed(tmp_path: Path) -> None:
    chat_file(tmp_path / "deep" / "below" / "one.json")
    chat_file(tmp_path / ".hidden" / "two.json")
    chat_file(tmp_path / "notes.md")
    plain = chat_file(tmp_path / "three.jsonl", SAID, SAID).read_bytes()
    (tmp_path / "four.jsonl.gz").write_bytes(gzip.compress(plain))
    with zipfile.ZipFile(tmp_path / "five.zip", "w") as names:
        names.writestr("inside/six.jsonl", plain)
        names.writestr(".hidden.json", plain)
    Agent(ScriptedModel(["Mine."])).run_sync("Go", store=Store(tmp_path / "runs"))
    runs = load_traces(tmp_path)
    assert sorted(said(runs)) == ["It is here."] * 7 + ["Mine."] and runs.problems == []
    places = {run.origin.file.removeprefix(f"{tmp_path}/") for run in runs if run.origin}
    assert places == {"deep/below/one.json", "three.jsonl", "four.jsonl.gz", "five.zip/inside/six.jsonl"}
    assert said(load_traces(tmp_path / "five.zip")) == said(load_traces(tmp_path / "four.jsonl.gz")) == ["It is here."] * 2


def test_unknown_file_is_refused_with_every_format_tried(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, data in {
        "a.json": b'{"a": 1}',
        "b.jsonl": b'{"a": 1}\n{"a": 2}\n',
        "c.txt": b"Hello",
        "d.json": b"",
        "e.json": b"{",
    }.items():
        with subtests.test(name):
            (tmp_path / name).write_bytes(data)
            with pytest.raises(TraceError, match=rf"{name} is not in a format that agentnb reads\. Tried ") as caught:
                load_trace(tmp_path / name)
            assert all(f"{format_.NAME}: " in str(caught.value) for format_ in FORMATS)


def test_damage_stops_strict_readers_and_is_reported_by_others(tmp_path: Path) -> None:
    path = chat_file(tmp_path / "chat.jsonl", SAID, SAID, SAID)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(lines[0] + "{broken\n" + '{"messages": 7}\n' + lines[2] + lines[1][:40], encoding="utf-8")
    with pytest.raises(TraceError, match=r"chat\.jsonl, line 2: It is not JSON.*strict=False"):
        load_traces(path)
    runs = load_traces(path, strict=False)
    assert said(runs) == ["It is here."] * 2
    assert [(problem.file, problem.position) for problem in runs.problems] == [
        (str(path), f"line {line}") for line in (2, 3, 5)
    ]
    assert "cut off" in runs.problems[-1].message
    with pytest.warns(UserWarning, match=r"Left out: .*chat\.jsonl, line 2"):
        assert said(load_traces(tmp_path)) == ["It is here."]


def test_unreadable_formats_are_summarized_in_one_warning(tmp_path: Path) -> None:
    for number in range(files.MAX_WARNINGS + 3):
        (tmp_path / f"{number:02}.txt").write_text("Permission is granted, free of charge", encoding="utf-8")
    with pytest.warns(UserWarning) as told:
        assert load_traces(tmp_path) == []
    (line,) = [str(one.message) for one in told]
    assert line.startswith("Left out: 13 files in formats that agentnb does not read, such as 00.txt") and len(line) < 140
    assert len(load_traces(tmp_path, strict=False).problems) == files.MAX_WARNINGS + 3


def test_many_damaged_files_are_counted_instead_of_named(tmp_path: Path) -> None:
    for number in range(files.MAX_WARNINGS + 3):
        path = chat_file(tmp_path / f"{number:02}.jsonl", SAID)
        path.write_text(path.read_text(encoding="utf-8") + "{broken\n", encoding="utf-8")
    (tmp_path / "LICENSE.txt").write_text("Permission is granted, free of charge", encoding="utf-8")
    with pytest.warns(UserWarning) as told:
        load_traces(tmp_path)
    assert len(told) == files.MAX_WARNINGS + 1 and "4 more" in str(told[-1].message)


def test_archives_that_expand_excessively_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(bounds, "MIN_EXPANDED_BYTES", 100_000)
    monkeypatch.setattr(bounds, "MAX_EXPANSION", 2)
    data = chat_file(tmp_path / "x.jsonl", *[SAID] * 2000).read_bytes()
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(data))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as names:
        names.writestr("x.jsonl", data)
    with subtests.test("gzip"), pytest.raises(TraceError, match="expands to more than"):
        load_traces(tmp_path / "bomb.jsonl.gz")
    with subtests.test("zip"):
        assert "expands to more than" in str(load_traces(tmp_path / "bomb.zip", strict=False).problems[-1])
    monkeypatch.setattr(trace_file, "MAX_RECORD_BYTES", 1000)
    (tmp_path / "long.jsonl").write_bytes(json.dumps({"messages": SAID * 50}).encode() + b"\n" + data[:200])
    with subtests.test("record"), pytest.raises(TraceError, match="not in a format that agentnb reads"):
        load_traces(tmp_path / "long.jsonl")


def test_damaged_archives_raise_errors_with_their_names(tmp_path: Path, subtests: pytest.Subtests) -> None:
    packed = gzip.compress(json.dumps({"messages": SAID}).encode())
    for name, data in {"cut.gz": packed[:-9], "odd.zip": b"PK\x03\x04 nothing"}.items():
        with subtests.test(name), pytest.raises(TraceError, match=rf"{name}.* cannot be unpacked"):
            (tmp_path / name).write_bytes(data)
            load_traces(tmp_path / name)


def test_runs_of_a_large_file_are_read_one_by_one(tmp_path: Path) -> None:
    path = chat_file(tmp_path / "chat.jsonl", *[SAID] * 3)
    with path.open("ab") as file:
        file.write(b"{broken\n")
    runs = iter_traces(path)
    assert [next(runs).text for _ in range(3)] == ["It is here."] * 3
    with pytest.raises(TraceError, match="line 4"):
        next(runs)


def test_python_json_with_surrogates_and_nan_is_read(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(
        '{"score": NaN, "messages": [{"role": "user", "content": "a \\ud83d"}, {"role": "assistant", "content": "b"}]}'
    )
    assert load_trace(path).prompt == "a \ufffd"


def test_glob_of_folders_reads_their_contents_once(tmp_path: Path) -> None:
    for name in ("one/a.json", "one/deep/b.json", "two/c.json", "d.json"):
        chat_file(tmp_path / name, [SAID[0], {"role": "assistant", "content": name}])
    for pattern in ("*", "**", "**/*"):
        runs = load_traces(str(tmp_path / pattern))
        assert sorted(said(runs)) == ["d.json", "one/a.json", "one/deep/b.json", "two/c.json"] and runs.problems == []
    assert said(load_traces(str(tmp_path / "t*"))) == ["two/c.json"]
    (tmp_path / "linked").symlink_to(tmp_path / "two")
    assert sorted(said(load_traces(str(tmp_path / "*")))) == ["d.json", "one/a.json", "one/deep/b.json", "two/c.json"]
