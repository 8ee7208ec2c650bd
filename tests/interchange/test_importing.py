"""Import of runs into a store: the user chooses how existing ids are treated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, Store, import_traces, load_trace, save_trace
from agentnb.errors import SettingsError, StoreError
from agentnb.interchange.formats.sam import run_of
from agentnb.models import ScriptedModel

FILE = Path(__file__).parent / "formats" / "files" / "sam" / "sam-conversation.json"
ID = "5D1F0B0E-7C2A-4E51-9B3D-0000000000A1"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with the first seven of the nine messages."""
    whole = json.loads(FILE.read_text("utf-8"))
    whole["conversation"]["messages"] = whole["conversation"]["messages"][:7]
    part = tmp_path / "part.json"
    part.write_text(json.dumps(whole), encoding="utf-8")
    store = Store(tmp_path / "runs")
    assert [imported.what for imported in import_traces(part, store)] == ["added"]
    return store


def messages(store: Store, run_id: str = ID) -> int:
    return len(store.load(run_id).settings["recorded"]["messages"])


def test_import_into_an_impossible_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    store, run = Store(tmp_path / "runs"), load_trace(FILE)
    store.prepare()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for folder, patched in {tmp_path / "file" / "runs": "", tmp_path / "new": "mkdir", store.folder: "exists"}.items():
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(Path, patched, refuse)
            with pytest.raises(StoreError, match="cannot be stored in"):
                import_traces(run, Store(folder))


@pytest.mark.req("R0.83")
def test_import_without_a_choice_raises_and_stores_nothing(store: Store, snapshot: Snapshot) -> None:
    before = store.path(ID).read_bytes()
    with pytest.raises(SettingsError, check=snapshot.worded):
        import_traces(FILE, store)
    with pytest.raises(SettingsError, match="existing='twice' is unknown"):
        import_traces(FILE, store, "twice")  # type: ignore[arg-type]
    assert store.path(ID).read_bytes() == before and store.ids() == [ID]


@pytest.mark.req("R0.83")
def test_import_can_skip_merge_replace_or_add(store: Store, subtests: pytest.Subtests) -> None:
    expected: dict[Any, tuple[str, int, int]] = {
        "skip": ("skipped", 1, 7),
        "merge": ("merged", 1, 9),
        "replace": ("replaced", 1, 9),
        "new": ("new", 2, 9),
    }
    for choice, (what, conversations, count) in expected.items():
        with subtests.test(choice):
            (done,) = import_traces(FILE, store, choice)
            assert (done.what, len(store.ids()), messages(store, done.run_id)) == (what, conversations, count)
            if choice == "merge":
                assert done.messages == 2 and store.load(ID).text == "Noted: gulls sleep on the water."
            if choice == "new":
                assert done.run_id != ID
                assert store.load(done.run_id).settings["recorded"]["conversation"]["title"] == "Sleeping gulls (Imported)"


def test_merge_keeps_runs_that_only_the_store_has(store: Store, tmp_path: Path) -> None:
    whole = json.loads(FILE.read_text("utf-8"))
    whole["conversation"]["messages"] = whole["conversation"]["messages"][5:]
    path = tmp_path / "late.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    import_traces(path, store, "merge")
    assert messages(store) == 9 and store.load(ID).rounds == run_of(json.loads(FILE.read_text("utf-8"))).rounds


def test_run_without_message_ids_cannot_be_merged(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    run = Agent(ScriptedModel(["Done."])).run_sync("Go", store=first)
    assert [imported.what for imported in import_traces(first, second)] == ["added"]
    assert second.load(run.id) == load_trace(first.path(run.id))
    with pytest.raises(SettingsError, match="cannot be merged: its messages have no ids"):
        import_traces(first, second, "merge")


def test_run_with_damaged_sam_fields_can_be_exported(tmp_path: Path) -> None:
    whole = json.loads(FILE.read_text("utf-8"))
    path = tmp_path / "damaged.json"
    for name in ("conversation", "export", "messages"):
        path.write_text(json.dumps(whole), "utf-8")
        run = load_trace(path)
        for wrong in (7, "x", [7], None):
            run.events[0].settings["recorded"][name] = wrong
            saved = json.loads(save_trace(run, tmp_path / "saved.json", "sam").read_text("utf-8"))
            assert len(saved["conversation"]["messages"]) == len(whole["conversation"]["messages"])
