"""A strict server of the part of GitHub's REST API that the tools use: it answers no other request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from loopback_thread import Handler, LoopbackThread

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def issue(number: int, **fields: Any) -> dict[str, Any]:
    """An issue as GitHub writes it, shortened."""
    return {
        "id": 1000 + number,
        "url": f"https://api.github.com/repos/octo/tides/issues/{number}",
        "repository_url": "https://api.github.com/repos/octo/tides",
        "html_url": f"https://github.com/octo/tides/issues/{number}",
        "number": number,
        "title": f"Issue {number}",
        "state": "open",
        "user": {"login": "ada", "id": 1},
        "labels": [{"id": 1, "name": "bug", "color": "f29513"}, {"id": 2, "name": "help wanted"}],
        "assignee": None,
        "comments": 3,
        "created_at": "2026-01-02T03:04:05Z",
        "body": "High water is wrong.\nSee the table.",
        **fields,
    }


PULL_REQUEST = issue(
    7, title="Mend\n the  table", labels=[], user=None, body=None, state="closed", pull_request={"url": "x"}, comments=0
)


class Asked(NamedTuple):
    """A request that came."""

    verb: str
    path: str
    query: dict[str, str]
    token: str | None
    data: Any


class Answer(NamedTuple):
    """An answer other than the usual one."""

    status: int
    data: Any = None
    headers: dict[str, str] = {}


class GitHubServer(LoopbackThread):
    """GitHub's API at loopback, with the repository ``octo/tides``. ``answers``: by path, instead of its own."""

    def __init__(self, answers: dict[str, Answer] | None = None, token: str = TOKEN) -> None:
        self.token = token
        self.asked: list[Asked] = []
        self.problems: list[str] = []
        """Mistakes of a client of GitHub."""
        self.answers = answers or {}
        outer = self

        class OfGitHub(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

        super().__init__(OfGitHub)
        self.url = f"http://127.0.0.1:{self.port}"

    def _answer(self, handler: Handler) -> None:
        asked = self._read(handler)
        self.asked.append(asked)
        answer = self.answers.get(asked.path) or self._usual(asked)
        body = answer.data if isinstance(answer.data, bytes) else json.dumps(answer.data).encode()
        handler.reply(answer.status, body, **{"Content-Type": "application/json; charset=utf-8", **answer.headers})

    def _read(self, handler: Handler) -> Asked:
        """Read a request, and note what is wrong with it."""
        headers, parts = handler.headers, urlsplit(handler.path)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        body = handler.rfile.read(int(headers.get("Content-Length") or 0))
        authorization = headers["Authorization"]
        is_post = handler.command == "POST"
        for is_wrong, problem in (
            (handler.command not in ("GET", "POST"), f"verb {handler.command}"),
            (len(dict(query)) != len(query), f"a parameter twice: {parts.query}"),
            (headers["Host"] != f"127.0.0.1:{self.port}", f"host {headers['Host']}"),
            (headers["Accept"] != "application/vnd.github+json", f"accept {headers['Accept']}"),
            (not headers["User-Agent"], "no user agent"),
            (authorization not in (None, f"token {self.token}"), f"authorization {authorization}"),
            (is_post and headers["Content-Type"] != "application/json", f"type {headers['Content-Type']}"),
            (is_post != bool(body), "a body where none belongs, or none where one does"),
            (self.token in handler.path or self.token.encode() in body, "the token in a path or body"),
            (headers["Cookie"] is not None, "a cookie"),
        ):
            if is_wrong:
                self.problems.append(problem)
        token = authorization.removeprefix("token ") if authorization else None
        return Asked(handler.command, parts.path, dict(query), token, json.loads(body) if body else None)

    def _usual(self, asked: Asked) -> Answer:
        """Return the answer of GitHub to the requests that the tools make."""
        answers: dict[tuple[str, str], Callable[[Asked], Answer]] = {
            ("GET", "/repos/octo/tides/issues/12"): lambda _: Answer(200, issue(12, title="Wrong table")),
            ("GET", "/repos/octo/tides/issues"): self._list,
            ("POST", "/repos/octo/tides/issues/12/comments"): self._comment,
        }
        answer = answers.get((asked.verb, asked.path))
        return Answer(404, {"message": "Not Found", "status": "404"}) if answer is None else answer(asked)

    def _list(self, asked: Asked) -> Answer:
        known = {"state", "labels", "per_page"}
        if not set(asked.query) <= known or asked.query.get("state") not in ("open", "closed", "all"):
            self.problems.append(f"query {asked.query}")
        if asked.query.get("labels") == "none":
            return Answer(200, [])
        return Answer(200, [issue(12), PULL_REQUEST, issue(3)][: int(asked.query["per_page"])])

    def _comment(self, asked: Asked) -> Answer:
        if asked.token is None:
            return Answer(401, {"message": "Requires authentication"})
        if set(asked.data) != {"body"} or not asked.data["body"]:
            self.problems.append(f"body {asked.data}")
        return Answer(201, {"id": 1, "html_url": "https://github.com/octo/tides/issues/12#issuecomment-1", "body": "x"})
