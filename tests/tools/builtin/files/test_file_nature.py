"""Calls about files that may contain keys need approval."""

from __future__ import annotations

import pytest
from file_desk import FileDesk

from agentnb.tools.subject import nature_of

SENSITIVE = [
    ".env",
    "sub/.env",
    "./.env",
    "to_env",
    "to_env/",
    "to_env/.",
    "link/.env",
    "id_rsa",
    "new/server.pem",
    "twice",
    "sub/../to_env",
]
SENSITIVE += ["nothing/../to_env", "plain.txt/../to_env"]
ORDINARY = ["plain.txt", "sub/plain.txt", "nothing.txt", ".", "", "..", "to_plain", ".env.example", "a\0b", "\ud800", "n" * 300]


def test_key_files_are_sensitive_under_any_path(subtests: pytest.Subtests, desk: FileDesk) -> None:
    desk.put({".env": "A=1\n", "sub/.env": "A=1\n", "plain.txt": "", "sub/plain.txt": "", "id_rsa": "", ".env.example": ""})
    for link, target in {"to_env": ".env", "link": "sub", "twice": "to_env", "to_plain": "plain.txt"}.items():
        (desk.folder / link).symlink_to(target)
    ordinary = {"read_file": "reads", "write_file": "changes", "edit_file": "changes"}
    for name, nature in ordinary.items():
        for expected, paths in (("sensitive", SENSITIVE), (nature, ORDINARY)):
            for path in paths:
                for written in (path, f"{desk.folder}/{path}"):
                    with subtests.test(f"{name} {written[-20:]!a}"):
                        assert nature_of(desk.tools[name], {"path": written}, desk.folder) == expected
        for arguments in (None, {}, {"path": 3}, "x"):
            assert nature_of(desk.tools[name], arguments, desk.folder) == nature
    assert nature_of(desk.tools["list_files"], {}, desk.folder) is None


def test_hard_link_to_a_key_file_becomes_sensitive(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(desk.outside))
    desk.put({"sub/prod.pem": "key\n", "plain.txt": "", "notes.txt": ""})
    (desk.outside / ".ssh").mkdir()
    (desk.outside / ".ssh" / "id_rsa").write_text("key\n")
    (desk.folder / "other.txt").hardlink_to(desk.folder / "plain.txt")
    (desk.folder / "a.txt").hardlink_to(desk.folder / "sub" / "prod.pem")
    (desk.folder / "b.txt").hardlink_to(desk.outside / ".ssh" / "id_rsa")
    (desk.folder / "to_a").symlink_to("a.txt")
    for expected, paths in {"sensitive": ("a.txt", "b.txt", "to_a"), "reads": ("plain.txt", "other.txt", "notes.txt")}.items():
        for path in paths:
            with subtests.test(path):
                assert nature_of(desk.tools["read_file"], {"path": path}, desk.folder) == expected
    (desk.folder / "late.key").hardlink_to(desk.folder / "other.txt")
    assert nature_of(desk.tools["read_file"], {"path": "other.txt"}, desk.folder) == "sensitive"
    matches = desk.text("search_files", pattern="key")
    assert ":1: key" not in matches and "a.txt" in matches
