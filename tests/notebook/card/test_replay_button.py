"""The replay button of a failed run: it replays only on a click, and shows the outcome as text."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import add, play

from agentnb import Run, ToolCall
from agentnb.errors import SettingsError
from agentnb.notebook.card import replay_button
from agentnb.notebook.card.replay_button import MAX_RUNS, ReplayButtons


class Page:
    """A page with the widget of the buttons."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.said: list[dict[str, Any]] = []
        self.comm = self.click_handler = None
        self.layout = SimpleNamespace(close=lambda: None)
        self.is_closed = False

    def on_msg(self, handler: Any) -> None:
        self.click_handler = handler

    def send(self, message: dict[str, Any]) -> None:
        self.said.append(message)

    def close(self) -> None:
        self.is_closed = True

    def click(self, run_id: str) -> dict[str, Any]:
        """Click the button of a run and return the kernel's answer."""
        self.click_handler(self, {"do": "replay", "run": run_id}, [])  # type: ignore[misc]
        return self.said[-1]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    new_page = Page()
    monkeypatch.setattr(replay_button, "_widget_class", lambda: lambda: new_page)

    def work(name: str) -> Any:
        def do(job: Callable[[], object]) -> None:
            job()

        return SimpleNamespace(do=do)

    monkeypatch.setattr(replay_button, "worker", work)
    return new_page


def limited(rounds: int = 2) -> Run:
    calls = [ToolCall("add", {"a": number}) for number in range(rounds + 1)]
    return play(*calls, "Done.", tools=[add], max_rounds=rounds, guidance="off")


def test_replay_starts_only_on_a_click(page: Page, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    replayed: list[str] = []
    real = replay_button.replay
    monkeypatch.setattr(replay_button, "replay", lambda run, **named: replayed.append(run.id) or real(run, **named))
    run = limited()
    ReplayButtons().add(run)
    assert page.runs == [run.id] and replayed == []
    answer = page.click(run.id)
    assert replayed == [run.id] and answer["run"] == run.id and answer["error"] == ""
    assert answer["told"] == snapshot


def test_replay_uses_guidance_and_policy_matrix(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[dict[str, Any]] = []
    monkeypatch.setattr(
        replay_button, "replay", lambda run, **named: settings.append(named) or SimpleNamespace(sentence="Told.")
    )
    run = limited()
    ReplayButtons().add(run)
    assert page.click(run.id)["told"] == "Told."
    assert settings == [{"guidance": "matrix", "policy": "matrix"}]


def test_replay_error_is_one_line(page: Page, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    run = limited()
    ReplayButtons().add(run)
    cases: dict[str, tuple[Exception, str]] = {
        "refused": (SettingsError("It had its own policy", "Give it"), "It had its own policy. Give it"),
        "a bug": (KeyError("round"), "Failed: KeyError: 'round'"),
    }
    for name, (error, line) in cases.items():
        with subtests.test(name):

            def broken(run: Run, error: Exception = error, **named: Any) -> Any:
                raise error

            monkeypatch.setattr(replay_button, "replay", broken)
            assert page.click(run.id) == {"run": run.id, "told": "", "error": line}


def test_completed_run_gets_no_replay_button(page: Page) -> None:
    buttons = ReplayButtons()
    buttons.add(play("Done."))
    assert page.click_handler is None and page.runs == []


def test_only_the_newest_runs_keep_a_button(page: Page) -> None:
    buttons = ReplayButtons()
    runs = [limited(1) for _ in range(MAX_RUNS + 2)]
    for run in [*runs, runs[5]]:  # the sixth is shown again
        buttons.add(run)
    assert page.runs == [run.id for run in [*runs[2:5], *runs[6:], runs[5]]]
    assert page.click(runs[0].id)["error"] == "This run is no longer in memory"


def test_closing_replay_buttons_releases_their_runs_and_widget(page: Page) -> None:
    buttons = ReplayButtons()
    buttons.add(limited())
    buttons.close()
    assert page.is_closed
    buttons.add(run := limited())
    assert page.runs == [run.id]


def test_unrelated_messages_are_ignored(page: Page) -> None:
    ReplayButtons().add(limited())
    for message in (None, "replay", {}, {"do": "dance"}):
        page.click_handler(page, message, [])  # type: ignore[misc]
    assert page.said == []
