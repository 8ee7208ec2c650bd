"""E-mail and web addresses: recognition, and the host that is shown and opened."""

from __future__ import annotations

import pytest

from agentnb.core.schema.web_addresses import is_email, is_uri, web_address
from agentnb.errors import SettingsError

EMAILS = ("ada@example.org", "a.b+c@b", "größe@münchen.de")
NOT_EMAILS = ("", "ada", "ada@", "@example.org", "a b@c.d", "a@b@c", "a@b,c@d", "a@b\n", "<a@b>")
URIS = ("https://example.org", "mailto:a@b.c", "urn:isbn:1", "https://münchen.de/ä?x=1#y", "file:///x")
NOT_URIS = ("", "example.org", "https:", "https://a b", "://x", "1:x", "a:\\b", "https://x\n", "https://<x>")
WEB = {
    "https://example.org/path?a=1#b": ("example.org", "example.org", "https://example.org/path?a=1#b"),
    "HTTP://Example.ORG:8080": ("example.org:8080", "example.org:8080", "http://example.org:8080"),
    "https://münchen.de/ä": ("münchen.de", "xn--mnchen-3ya.de", "https://xn--mnchen-3ya.de/ä"),
    "https://\u0430pple.com/": ("\u0430pple.com", "xn--pple-43d.com", "https://xn--pple-43d.com/"),
    "https://evil。example": ("evil。example", "evil.example", "https://evil.example"),
    "http://127.0.0.1:9/x": ("127.0.0.1:9", "127.0.0.1:9", "http://127.0.0.1:9/x"),
    "http://[::1]:9/x": ("[::1]:9", "[::1]:9", "http://[::1]:9/x"),
}
REFUSED = (
    *("", "example.org", "//example.org", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://a.b"),
    *(
        "https://",
        "https:///x",
        "https://bank.example@evil.example/",
        "https://a:b@c.d",
        "https://evil.example\\@bank.example/",
    ),
    *(
        "https://a b.c",
        "https://a.b\n",
        "\thttps://a.b",
        "https://a.b:port",
        "https://a.b:99999",
        "https://-a.b",
        "https://a..b",
    ),
    *("https://a.b/<script>", 'https://a.b/"x', "https://[::1", f"https://a.b/{'x' * 9_000}", f"https://{'ü' * 80}.de"),
)


def test_addresses_are_recognized_by_their_form(subtests: pytest.Subtests) -> None:
    for check, right, wrong in ((is_email, EMAILS, NOT_EMAILS), (is_uri, URIS, NOT_URIS)):
        for text in right + wrong:
            with subtests.test(check.__name__, text=text):
                assert check(text) == (text in right)


def test_shown_host_is_the_one_that_is_opened(subtests: pytest.Subtests) -> None:
    for url, (host, ascii_host, opened) in WEB.items():
        with subtests.test(url):
            assert web_address(url) == (url, host, ascii_host, opened)
    for url in REFUSED:
        with subtests.test(url[:60]), pytest.raises(SettingsError, match="cannot be opened"):
            web_address(url)
