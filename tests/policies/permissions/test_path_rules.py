"""Paths and addresses as rules see them: resolved and parsed, whatever their spelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentnb.policies.permissions.path_rules import (
    address_glob,
    canonical_address,
    offered_address,
    offered_folder,
    path_glob,
    resolved_path,
)


def test_a_pattern_of_a_path_meets_the_resolved_path(subtests: pytest.Subtests, tmp_path: Path) -> None:
    folder = (tmp_path / "work").resolve()
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "data" / "out").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    cases: list[tuple[str, str, bool | None]] = [
        ("data/**", "data/a.txt", True),
        ("data/**", "data/deep/a.txt", True),
        ("data/**", "data", True),
        ("data/**", "./data/../data/a.txt", True),
        ("data/**", "data/../a.txt", False),
        ("data/**", "data/out/secret", False),
        ("data/**", "database/a.txt", False),
        ("data/**", str(folder / "data" / "a.txt"), True),
        ("data/*", "data/deep/a.txt", False),
        ("data/", "data/deep/a.txt", True),
        ("data", "data/a.txt", False),
        ("*.txt", "a.txt", True),
        ("*.txt", "data/a.txt", False),
        ("**", "../secret", False),
        (f"{tmp_path.resolve()}/**", "../secret", True),
        ("a.txt", "..a.txt", False),
        ("..foo", "..foo", True),
        ("**", "loop", None),
        ("**", "a\0b", None),
    ]
    for pattern, path, matches in cases:
        with subtests.test(f"{pattern} {path!r}"):
            found = resolved_path(path, folder)
            assert (None if found is None else re.fullmatch(path_glob(pattern, folder), str(found)) is not None) == matches
    for pattern, path, matches in (("data", "data/deep/a", True), ("data", "database", False), ("data/*", "data/d/a", False)):
        assert bool(re.fullmatch(path_glob(pattern, folder, with_inside=True), str(folder / path))) == matches, pattern
    home = path_glob("~/notes/**", folder)
    assert re.fullmatch(home, str(Path.home() / "notes" / "a"))


def test_the_folder_that_is_offered_holds_the_file_and_nothing_above(tmp_path: Path) -> None:
    work = tmp_path.resolve()
    for path, pattern in (("data/a.txt", "/data/**"), ("a.txt", "/*"), ("data/deep/b", "/data/deep/**")):
        offered = offered_folder(work / path, work)
        assert offered.endswith(pattern) and re.fullmatch(path_glob(offered, Path("/elsewhere")), str(work / path))
    assert not re.fullmatch(path_glob(offered_folder(work / "a.txt", work), work), str(work / "data" / "a.txt"))
    above = offered_folder(work.parent / "b", work)
    assert above.endswith("/*") and not re.fullmatch(path_glob(above, work), str(work / "a"))
    assert offered_folder(Path("/vmlinuz"), work) == "" and offered_folder(work / "a*b" / "c", work) == ""


def test_an_address_is_matched_by_scheme_host_and_path(subtests: pytest.Subtests) -> None:
    pattern = "https://docs.example.org/3/**"
    cases = {
        "https://docs.example.org/3/library": True,
        "https://docs.example.org/3": True,
        "HTTPS://DOCS.Example.ORG:443/3/a?b=c#d": True,
        "https://docs.example.org./3/a": True,
        "https://docs.example.org/2/a": False,
        "http://docs.example.org/3/a": False,
        "https://docs.example.org:8443/3/a": False,
        "https://docs.example.org.evil.net/3/a": False,
        "https://evil.net/https://docs.example.org/3/a": None,
        "https://evil.net/docs.example.org/3/a": False,
        "https://docs.example.org/3/%2e%2e/secret": None,
        "https://docs.example.org/3/../secret": None,
        "https://docs.example.org@evil.net/3/a": None,
        "https://me:word@docs.example.org/3/a": None,
        "https://docs.example.org\\@evil.net/3/a": None,
        "https://docs.example.org /3/a": None,
        "ftp://docs.example.org/3/a": None,
        "//docs.example.org/3/a": None,
        "https:///3/a": None,
        "https://docs.example.org:99999/3": None,
        "https://docs.example.org/./3/a": None,
        "https://docs.example.org//3/a": None,
        "https://docs.example.org/%252e%252e/a": None,
        "http://127.1/3/a": None,
        "http://0x7f000001/3/a": None,
        "http://2130706433/": None,
        "http://127.0.0.01/": None,
        "http://[::1]/": None,
        "http://127.0.0.1/3/a": False,
    }
    glob = address_glob(pattern)
    assert glob is not None
    for address, matches in cases.items():
        with subtests.test(address):
            found = canonical_address(address)
            assert (None if found is None else re.fullmatch(glob, found) is not None) == matches
    hosts = address_glob("https://*.example.org")
    assert hosts is not None and re.fullmatch(hosts, "https://a.example.org:443/any/where")
    assert not re.fullmatch(hosts, "https://example.org:443/") and not re.fullmatch(hosts, "https://evil.net:443/x.example.org")
    for text in ("docs.example.org/**", "ftp://a.org", "https://", "https://a b", "https://me@a.org/**"):
        assert address_glob(text) is None, text
    for address in ("https://docs.example.org:443/a/b", "http://localhost:8080/a"):
        again = address_glob(offered_address(address))
        assert again is not None and re.fullmatch(again, address)
