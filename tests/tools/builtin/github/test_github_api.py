"""Requests to GitHub's API: the token's destination, and an error for each refusal."""

from __future__ import annotations

import gzip
import json
import logging
import time
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from github_server import TOKEN, Answer, GitHubServer, issue

from agentnb import settings
from agentnb.settings import Key
from agentnb.tools.builtin.github import api_errors, github_group
from agentnb.tools.builtin.github.api_errors import ToolRefused
from agentnb.tools.builtin.github.github_group import Api, check_url
from agentnb.tools.tool import ToolOutcome

PATH = "/repos/octo/tides/issues/12"


def refusal(url: str, *, has_token: bool = True) -> ToolOutcome:
    """Ask for an issue and return the error."""
    with pytest.raises(ToolRefused) as caught:
        Api(url, Key("GITHUB_TOKEN", TOKEN, "a test") if has_token else None).get(PATH)
    assert TOKEN not in repr((caught.value, caught.value.outcome, caught.value.__cause__))
    return caught.value.outcome


def test_github_refusals_become_errors_with_a_hint(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    monkeypatch.setattr(api_errors.time, "time", lambda: 1_767_225_600.0)
    spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767226200", "X-RateLimit-Limit": "60"}
    cases = {
        "bad token": (401, {"message": "Bad credentials"}, {}, "unauthorized"),
        "forbidden": (403, {"message": "Resource not accessible by personal access token"}, {}, "forbidden"),
        "spent": (403, {"message": "API rate limit exceeded for 127.0.0.1."}, spent, "rate_limited"),
        "too quick": (429, {"message": "Slow\n down"}, {"Retry-After": "60"}, "rate_limited"),
        "no time": (429, {}, {"Retry-After": "soon"}, "rate_limited"),
        "gone": (410, {"message": "This issue was deleted"}, {}, "not_found"),
        "missing": (404, {"message": "Not Found"}, {}, "not_found"),
        "invalid": (422, {"message": f"Validation Failed for {TOKEN} {'x' * 999}"}, {}, "refused"),
        "broken": (502, b"<html>Bad gateway</html>", {}, "server_error"),
        "list": (400, [], {}, "refused"),
    }
    for name, (status, data, headers, code) in cases.items():
        with GitHubServer({PATH: Answer(status, data, headers)}) as server:
            for has_token in (True, False):
                outcome = refusal(server.url, has_token=has_token)
                assert outcome.error_code == code
                assert outcome.text == snapshot(f"{name}{'' if has_token else ', no token'}")
            assert len(server.asked) == 2 and server.problems == []  # no second try


def test_token_is_never_sent_to_another_host(subtests: pytest.Subtests) -> None:
    with GitHubServer() as other:
        for status in (301, 302, 303, 307, 308):
            for location in (
                f"http://localhost:{other.port}{PATH}",
                f"{other.url}{PATH}",
                f"https://127.0.0.1:{other.port}{PATH}",
            ):
                with subtests.test(f"{status} {location}"):
                    with GitHubServer({PATH: Answer(status, {"message": "Moved"}, {"Location": location})}) as server:
                        api = Api(server.url, Key("GITHUB_TOKEN", TOKEN, "a test"))
                        try:
                            assert api.get(PATH)["message"] == "Moved"
                        except ToolRefused as error:
                            assert error.outcome.error_code in ("unexpected_answer", "not_found")
                    assert other.asked == [] and other.problems == []


def test_renamed_repository_is_followed_on_the_same_host(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    new = "/repositories/1/issues/12"
    answers = {new: Answer(200, issue(12)), f"{new}/comments": Answer(201, {"html_url": "x"})}
    with GitHubServer(answers) as server:
        for old in (PATH, f"{PATH}/comments"):
            location = f"{server.url}{old.replace('repos/octo/tides', 'repositories/1')}"
            answers[old] = Answer(301, {"message": "Moved Permanently"}, {"Location": location})
        api = Api(server.url, Key("GITHUB_TOKEN", TOKEN, "a test"))
        assert api.get(PATH)["number"] == 12 and api.post(f"{PATH}/comments", {"body": "Seen."}) == {"html_url": "x"}
        assert [asked.token for asked in server.asked] == [TOKEN] * 4 and server.problems == []
    assert waits == []


def test_response_that_is_not_json_is_an_error() -> None:
    with GitHubServer({PATH: Answer(200, b'{"number": ')}) as server:
        assert refusal(server.url).error_code == "unexpected_answer"


def test_response_size_is_limited_compressed_or_not(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github_group, "MAX_BYTES", 50_000)
    packed, long = {"Content-Encoding": "gzip"}, json.dumps(issue(12, body="a" * 50_000)).encode()
    for name, status, body, headers, problem in (
        ("as it is", 200, long, {}, "50,000 bytes"),
        ("compressed", 200, gzip.compress(long), packed, "50,000 bytes"),
        ("of an error", 404, gzip.compress(long), packed, "50,000 bytes"),
        ("damaged", 200, b"no gzip", packed, "compression"),
        ("in another way", 200, b"x", {"Content-Encoding": "br"}, "compression"),
    ):
        with subtests.test(name), GitHubServer({PATH: Answer(status, body, headers)}) as server:
            outcome = refusal(server.url)
            assert outcome.error_code == "unexpected_answer" and problem in outcome.text
    with GitHubServer({PATH: Answer(200, gzip.compress(b'{"number": 3}'), packed)}) as server:
        assert Api(server.url, None).get(PATH)["number"] == 3


def test_unreachable_server_is_an_error(snapshot: Snapshot) -> None:
    with GitHubServer() as server:
        pass
    outcome = refusal(server.url)
    assert outcome.error_code == "unreachable" and outcome.text.replace(str(server.port), "PORT") == snapshot


def test_no_proxy_sees_a_plaintext_token(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    with GitHubServer() as server, GitHubServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        outcome = refusal(server.url)
        assert outcome.text.replace(str(server.port), "PORT") == snapshot and proxy.asked == server.asked == []
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert Api(server.url, None).get(PATH)["number"] == 12


def test_netrc_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password word")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with GitHubServer() as server:
        Api(server.url, None).get(PATH)
        Api(server.url, Key("GITHUB_TOKEN", TOKEN, "a test")).get(PATH)
    assert [asked.token for asked in server.asked] == [None, TOKEN] and server.problems == []


def test_python_logs_do_not_contain_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with GitHubServer() as server:
        Api(server.url, Key("GITHUB_TOKEN", TOKEN, "a test")).post(f"{PATH}/comments", {"body": "Seen."})
    assert caplog.text and TOKEN not in caplog.text


def test_repr_of_a_key_hides_its_secret() -> None:
    assert TOKEN not in repr(Api("https://api.github.com", Key("GITHUB_TOKEN", TOKEN, "a test")))
    check_url(None)
    assert settings.key_variable("github") == "GITHUB_TOKEN" and settings.providers_with_key() == []
