"""Questions of MCP servers: the person's question, the server's answer, and redaction."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp_runs import bench, calls, is_alive, played, process_of, results, texts

from agentnb.core.questions import WaitingOnUser
from agentnb.errors import Declined, QuestionCancelled
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.defaults import MAX_QUESTIONS

BOOK = calls(("book", {"train": "TGV"}))


def raises(error: Exception) -> Any:
    """Return a function that raises."""

    def answer(question: WaitingOnUser) -> Any:
        raise error

    return answer


@pytest.mark.req("R1.43")
def test_server_form_can_be_answered_declined_or_cancelled(servers: Servers) -> None:
    cases: list[tuple[Any, str, str, bool]] = [
        (lambda question: {"seats": 2, "place": "aisle"}, "answered", "2 at the aisle in TGV", True),
        (lambda question: {"seats": 12}, "declined", "", False),  # the form allows nine
        (raises(Declined("no")), "declined", "", False),
        (raises(QuestionCancelled("closed")), "cancelled", "", False),
    ]
    for answer, outcome, said, is_ok in cases:
        run = played([BOOK], [bench()], servers, answer=answer)
        (asked,) = run.questions
        assert (asked.outcome, asked.question.asked_by) == (outcome, "MCP server bench")
        assert asked.question.schema["properties"]["seats"]["maximum"] == 9
        (result,) = results(run)
        assert (not result.is_error, said in texts(run)[0]) == (is_ok, True), texts(run)


@pytest.mark.req("R1.45")
def test_model_gets_an_error_without_a_person_to_ask(servers: Servers) -> None:
    run = played([BOOK], [bench()], servers)
    assert [result.error_code for result in results(run)] == ["nobody_to_ask"]


def test_question_for_a_key_is_declined_with_the_reason(servers: Servers) -> None:
    run = played([calls(("log_in", {}))], [bench()], servers, answer=lambda question: pytest.fail("it was asked"))
    assert not run.questions
    assert "answered with decline" in texts(run)[0]
    assert "api_key" in texts(run)[0]


def test_only_the_person_opens_an_address(servers: Servers) -> None:
    seen: list[WaitingOnUser] = []

    def answer(question: WaitingOnUser) -> str:
        seen.append(question)
        return "done"

    run = played([calls(("visit", {"url": "https://login.example.org/start?session=1"}))], [bench()], servers, answer=answer)
    assert "answered with accept" in texts(run)[0]
    assert [(question.url, question.message) for question in seen] == [
        ("https://login.example.org/start?session=1", "Sign in there")
    ]
    for url in ("javascript:alert(1)", "file:///etc/passwd", "no address"):
        run = played([calls(("visit", {"url": url}))], [bench()], servers, answer=answer)
        assert "answered with decline" in texts(run)[0]
        assert not run.questions
    assert len(seen) == 1


def test_server_that_asks_endlessly_gets_an_error_result(servers: Servers) -> None:
    run = played([calls(("nag", {}))], [bench()], servers, answer=lambda question: {"more": True})
    assert results(run)[0].is_error
    assert len(run.questions) == MAX_QUESTIONS


def test_questions_of_parallel_calls_go_to_the_right_run(servers: Servers) -> None:
    both_are_asked = threading.Barrier(2)

    def text_of_run(seats: int) -> str:
        def answer(question: WaitingOnUser) -> Any:
            both_are_asked.wait(30)
            return {"seats": seats, "place": "aisle"}

        return texts(played([BOOK], [bench()], servers, answer=answer))[0]

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(text_of_run, (2, 3))] == ["2 at the aisle in TGV", "3 at the aisle in TGV"]


def test_question_of_a_dead_server_repeats_only_for_repeatable_calls(servers: Servers, tmp_path: Path) -> None:
    for tool, times in (("book", 2), ("book_once", 1)):
        process = process_of(texts(played([calls(("where", {}))], [bench()], servers))[0])
        asked: list[WaitingOnUser] = []

        def answer(question: WaitingOnUser, asked: list[WaitingOnUser] = asked, process: int = process) -> Any:
            asked.append(question)
            if len(asked) == 1:
                os.kill(process, signal.SIGKILL)
                while is_alive(process):
                    pass
            return {"seats": 1}

        run = played([calls((tool, {"train": "TGV"}))], [bench()], servers, answer=answer)
        assert len(asked) == times, texts(run)
        assert [result.error_code for result in results(run)] == [None if times == 2 else "server_ended"]
