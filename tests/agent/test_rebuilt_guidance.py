"""An agent rebuilt from a log has the guidance of its run, even if the cell of the set is gone."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from msgspec.structs import replace
from scripted_runs import work

from agentnb import Agent, GuidanceSet, Run, Store
from agentnb.agent.from_log import agent_of
from agentnb.core.log.events import RunStarted
from agentnb.errors import SettingsError
from agentnb.guidance import find_set
from agentnb.guidance.parts import PARTS
from agentnb.models.scripted import ScriptedModel

OWN = GuidanceSet("own", {"todos_text": "Do {{ next_todo }} now.", "text": "", "note": ""})


def run_with(words: str | GuidanceSet, folder: Path, **instead: object) -> Run:
    """Return a logged run with this set; ``instead`` replaces fields of its first event."""
    store = Store(folder)
    run = store.load(Agent(ScriptedModel(["Done."]), tools=[work], guidance=words).run_sync("go", store=store).id)
    first = run.events[0]
    assert isinstance(first, RunStarted)
    return Run.from_events([replace(first, **instead), *run.events[1:]])


def rebuilt(run: Run) -> GuidanceSet:
    guidance = agent_of(run, tools=[work], model=ScriptedModel([])).guidance
    return find_set(guidance)


def test_guidance_set_is_rebuilt_with_texts_name_and_version(tmp_path: Path, subtests: pytest.Subtests) -> None:
    one_text = GuidanceSet.from_markdown("terse", "Say little.")
    silent = GuidanceSet("silent", dict.fromkeys(PARTS, ""))
    for guidance in (OWN, one_text, silent, find_set("matrix"), find_set("off")):
        with subtests.test(guidance.name):
            found = rebuilt(run_with(guidance, tmp_path / guidance.name))
            assert (found, found.version) == (guidance, guidance.version)
            assert find_set("matrix") is found or guidance.name != "matrix"


def test_built_in_guidance_of_another_version_keeps_logged_texts(tmp_path: Path) -> None:
    texts = {**{name: text for name, text in find_set("matrix").parts.items() if text}, "text": "Answer as it was then."}
    guidance = rebuilt(run_with("matrix", tmp_path, guidance=texts))
    assert (guidance.name, guidance.parts["text"]) == ("matrix", "Answer as it was then.")
    assert guidance.version != find_set("matrix").version and find_set("matrix").parts["text"] != guidance.parts["text"]
    assert pickle.loads(pickle.dumps(guidance)) == guidance and pickle.loads(pickle.dumps(OWN)) == OWN
    again = Agent(ScriptedModel(["Done."]), guidance=guidance).run_sync("go")
    assert again.settings["guidance"] == {"set": "matrix", "version": guidance.version}
    assert rebuilt(Run.from_events(again.events)) == guidance


def test_log_of_an_older_version_requires_its_guidance_set(tmp_path: Path) -> None:
    old = run_with(OWN, tmp_path, guidance={}, schema=4)
    with pytest.raises(SettingsError, match="had the guidance set own, which is not available here"):
        rebuilt(old)
    assert rebuilt(run_with("matrix", tmp_path, guidance={}, schema=4)) is find_set("matrix")


def test_invalid_guidance_text_in_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no_such_variable"):
        rebuilt(run_with(OWN, tmp_path, guidance={"text": "{{ no_such_variable }}"}))
