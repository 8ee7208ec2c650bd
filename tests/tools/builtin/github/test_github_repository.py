"""The repository of a remote's address."""

from __future__ import annotations

from agentnb.tools.builtin.github.github_repository import Repository, read_name, read_origin


def test_remote_addresses_are_parsed() -> None:
    for address in (
        "https://github.com/octo/tides.git",
        "https://github.com/octo/tides",
        "https://github.com/octo/tides/",
        "https://ada:word@github.com/octo/tides.git",
        "https://GitHub.com/octo/tides",
        "git@github.com:octo/tides.git",
        "github.com:octo/tides",
        "git@github.com:/octo/tides",
        "ssh://git@github.com/octo/tides.git",
        "ssh://git@github.com:22/octo/tides.git",
        "git://github.com/octo/tides.git",
    ):
        assert read_origin(address) == ("github.com", Repository("octo", "tides")), address


def test_other_remote_addresses_yield_no_repository() -> None:
    for address in (
        "",
        "/srv/git/tides.git",
        "../tides",
        "file:///srv/octo/tides",
        "ext::sh -c true",
        "https://github.com/octo",
        "https://github.com/octo/tides/wiki",
        "https://github.com/octo/..",
        "https://github.com/../tides",
        "https://github.com/octo/ti des",
        "https:///octo/tides",
        "http://[::1/octo/tides",
    ):
        assert read_origin(address) is None, address


def test_repository_names_follow_github_rules() -> None:
    assert read_name("octo-1/tides.py_2") == Repository("octo-1", "tides.py_2")
    for text in ("octo", "octo/", "/tides", "a/b/c", "octo/..", "./x", "octo/ti%2Fdes", "octo/tides?x", f"octo/{'a' * 101}"):
        assert read_name(text) is None, text
