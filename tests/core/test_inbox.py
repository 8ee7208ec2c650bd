"""Commands of the person, from any thread."""

from __future__ import annotations

import threading

from agentnb.core.inbox import Command, Inbox


def test_commands_are_read_in_order() -> None:
    inbox = Inbox()
    inbox.put("pause")
    inbox.put("say", "hello")
    assert [inbox.take(), inbox.take(), inbox.take()] == [Command("pause"), Command("say", "hello"), None]


def test_stop_takes_effect_before_it_is_read() -> None:
    inbox = Inbox()
    assert not inbox.stop_requested
    inbox.put("stop", "enough")
    assert inbox.stop_requested


def test_other_commands_do_not_request_a_stop() -> None:
    inbox = Inbox()
    for name in ("pause", "resume", "say"):
        inbox.put(name)
    assert not inbox.stop_requested


def test_inbox_has_news_until_it_is_read() -> None:
    inbox = Inbox()
    assert not inbox.has_news
    inbox.put("pause")
    assert inbox.has_news
    inbox.take()
    assert not inbox.has_news


def test_stop_still_counts_as_news_after_reading() -> None:
    inbox = Inbox()
    inbox.put("stop")
    inbox.take()
    assert inbox.has_news


def test_every_command_wakes_the_listener() -> None:
    inbox, heard = Inbox(), []
    inbox.on_put(heard.append)
    inbox.put("resume")
    assert heard == [Command("resume")]


def test_command_is_in_the_inbox_before_the_listener_wakes() -> None:
    inbox, events_seen = Inbox(), []
    inbox.on_put(lambda command: events_seen.append(inbox.take()))
    inbox.put("say", "hi")
    assert events_seen == [Command("say", "hi")]


def test_commands_are_not_lost_between_threads() -> None:
    inbox = Inbox()

    def put(who: int) -> None:
        for number in range(200):
            inbox.put("say", f"{who}:{number}")

    threads = [threading.Thread(target=put, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said: list[str] = []
    while (command := inbox.take()) is not None:
        said.append(command.text)
    for who in range(8):
        assert [text for text in said if text.startswith(f"{who}:")] == [f"{who}:{number}" for number in range(200)]


def test_closed_inbox_wakes_nobody_and_ignores_parent_pauses() -> None:
    around, heard = Inbox(), list[Command]()
    nested = Inbox(around)
    nested.on_put(heard.append)
    around.put("pause")
    nested.close()
    nested.put("say", "too late")
    around.put("resume")
    assert [command.name for command in heard] == ["pause"]
