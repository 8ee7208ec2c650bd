"""Requests to GitHub's API, by PyGithub."""

from __future__ import annotations

import ipaddress
import zlib
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from agentnb import settings
from agentnb.errors import SettingsError
from agentnb.tools.builtin.bounded_body import BoundedBody, UnknownEncoding
from agentnb.tools.builtin.github.api_errors import behind_proxy, refused, unexpected, unreachable

API_URL = "https://api.github.com"
ANSWER_SECONDS = 15
"""Seconds to wait for a connection, and for each piece of the answer."""
HEADERS = {"Accept": "application/vnd.github+json", "Accept-Encoding": "gzip"}
MAX_BYTES = 10_000_000
"""Bytes of an answer that are read, compressed or not."""
CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Api:
    """GitHub's API at an address. It sends the key there and nowhere else."""

    url: str
    key: settings.Key | None

    def get(self, path: str, parameters: dict[str, Any] | None = None) -> Any:
        """Return the data of a GET request. Raises `ToolRefused`."""
        return self._request("GET", path, parameters=parameters)

    def post(self, path: str, data: dict[str, Any]) -> Any:
        """Return the answer to a POST request. Raises `ToolRefused`."""
        return self._request("POST", path, input=data)

    def _request(self, verb: str, path: str, **content: Any) -> Any:
        from github import GithubException
        from requests import RequestException, Timeout

        host = urlsplit(self.url).netloc
        if self._uses_proxy_in_plain():
            raise behind_proxy(urlsplit(self.url).hostname or host)
        try:
            with closing(self._client()) as client:
                _read_bounded_answers(client.requester)
                _, data = client.requester.requestJsonAndCheck(verb, path, headers=dict(HEADERS), **content)
        except GithubException as error:
            raise refused(error.status, error.data, error.headers or {}, has_token=self.key is not None) from None
        except Timeout:
            raise unreachable(host, f"no answer within {ANSWER_SECONDS} seconds") from None
        except RequestException as error:
            raise unreachable(host, type(error).__name__) from None
        except (RuntimeError, ValueError):  # a redirect to another host, which PyGithub does not follow; broken JSON
            raise unexpected("it leads to another address, or is not JSON") from None
        return data

    def _client(self) -> Any:
        """Return a client for one request, which it does not repeat."""
        from github import Auth, Github

        return Github(
            base_url=self.url,
            auth=None if self.key is None else Auth.Token(self.key.reveal()),
            timeout=ANSWER_SECONDS,
            user_agent="agentnb",
            retry=None,
        )

    def _uses_proxy_in_plain(self) -> bool:
        """Return whether a proxy of the environment would get the request as it is: with https, it gets a tunnel."""
        from requests.utils import get_environ_proxies, select_proxy

        return self.url.startswith("http:") and bool(select_proxy(self.url, get_environ_proxies(self.url)))


def _read_bounded_answers(requester: Any) -> None:
    """Have no answer read beyond the limit. PyGithub takes another class of connections only for the whole process."""
    kind = requester._Requester__connectionClass

    def connect(*place: Any, **options: Any) -> Any:
        connection = kind(*place, **options)
        connection.session.hooks["response"].append(_read_bounded)
        return connection

    requester._Requester__connectionClass = connect


def _read_bounded(response: Any, **_: Any) -> None:
    """Read the body of a response of `requests` up to the limit, before that reads it whole. Raises `ToolRefused`."""
    from requests import ReadTimeout, RequestException
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    with closing(response):
        try:
            body = BoundedBody(response.headers.get("Content-Encoding", ""), MAX_BYTES)
            for chunk in response.raw.stream(CHUNK_BYTES, decode_content=False):
                if body.add(chunk):
                    raise unexpected(f"it has more than {MAX_BYTES:,} bytes")
        except (UnknownEncoding, zlib.error):
            raise unexpected("it is compressed in a way that cannot be read") from None
        except ReadTimeoutError as error:
            raise ReadTimeout from error
        except HTTPError as error:
            raise RequestException from error
        response._content, response._content_consumed = body.content, True


def check_url(url: object) -> None:
    """Raise `SettingsError` unless the address of an API is https, or http on this machine, and no more than that."""
    if url is None:
        return
    parts = _parsed(url) if isinstance(url, str) else None
    problem = settings.url_problem(url) if isinstance(url, str) else ""
    is_usable = parts is not None and parts.hostname and (parts.scheme == "https" or _is_own_http(parts))
    if problem or not is_usable:
        what = f"url= of GitHub {problem}" if problem else "url= of GitHub is not an https address"
        raise SettingsError(what, 'Write the address of its API: GitHub(url="https://github.example.org/api/v3")')


def _parsed(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _is_own_http(parts: SplitResult) -> bool:
    """Return whether it is http on this machine, where nobody else hears the token."""
    host = parts.hostname or ""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    return parts.scheme == "http" and is_loopback
