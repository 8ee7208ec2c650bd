"""``git_add``: staged, skipped and refused files."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from git_repositories import GitRepository, call_tool

from agentnb import settings


def staged(repository: GitRepository) -> set[str]:
    return set(repository.git("diff", "--cached", "--name-status", "--no-renames").replace("\t", " ").split("\n")) - {""}


def test_everything_below_the_folder_is_staged(repository: GitRepository) -> None:
    repository.write("c.txt", "2\n")
    repository.write("d/a.txt", "2\n")
    repository.write("d/new/x.txt", "1\n")
    (repository.folder / "d/b.txt").unlink()
    text = call_tool("git_add", repository.folder / "d", paths=["."]).text
    assert text.split("\n") == ["Staged 3 files:", "M a.txt", "D b.txt", "A new/x.txt"]
    assert staged(repository) == {"M d/a.txt", "D d/b.txt", "A d/new/x.txt"}
    assert repository.text("git_add", paths=["."]).split("\n") == ["Staged 1 file:", "M c.txt"]


def test_unusual_names_are_staged(repository: GitRepository) -> None:
    names = ["a\nb", 'q"q', "größe", "-x", ":(top)c.txt", "*", " blank "]
    for name in names:
        repository.write(name, "1")
    repository.write("other", "1")
    repository.text("git_add", paths=names)
    tracked = repository.git("diff", "--cached", "--name-only", "-z").split("\0")
    assert set(tracked) == {*names, ""}
    repository.write(b"caf\xe9/x\xff", "1")
    assert '"caf\\351/x\\377"' in repository.text("git_add", paths=["."])


def test_folder_that_replaced_a_file_is_staged(repository: GitRepository) -> None:
    (repository.folder / "c.txt").unlink()
    repository.write("c.txt/x", "1")
    repository.text("git_add", paths=["."])
    assert staged(repository) == {"D c.txt", "A c.txt/x"}


def test_links_are_staged_as_links_and_not_followed_outside(repository: GitRepository) -> None:
    secret = repository.folder.parent / "outside"
    secret.mkdir()
    (secret / "x").write_text("hidden")
    (repository.folder / "out").symlink_to(secret)
    (repository.folder / "in").symlink_to("d")
    (repository.folder / "loop").symlink_to("loop")
    repository.write("d/a.txt", "2\n")
    assert repository.refusal("git_add", paths=["out/x"]) == "outside_work_dir"
    assert repository.refusal("git_add", paths=["../outside/x"]) == "outside_work_dir"
    assert not repository.call("git_add", paths=["loop/x"]).ok
    assert repository.refusal("git_add", paths=[".git/config"]) == "outside_work_dir"
    repository.text("git_add", paths=["out", "in/a.txt"])
    assert repository.git("cat-file", "blob", ":out") == str(secret)
    assert staged(repository) == {"A out", "M d/a.txt"}


def test_key_files_are_staged_only_by_name(repository: GitRepository, snapshot: Snapshot) -> None:
    for name in (".env", ".env.example", "d/id_ed25519", "d/id_ed25519.pub"):
        repository.write(name, "x")
    assert repository.text("git_add", paths=["."]) == snapshot
    assert staged(repository) == {"A .env.example", "A d/id_ed25519.pub"}
    assert repository.call("git_add", paths=["."]).text == snapshot
    repository.text("git_add", paths=[".env"])
    assert "A .env" in staged(repository) and "A d/id_ed25519" not in staged(repository)


def test_files_with_a_filter_are_refused_or_skipped(repository: GitRepository, snapshot: Snapshot) -> None:
    repository.write(".gitattributes", "*.bin filter=lfs diff=lfs\nplain.bin -filter\n")
    for name in ("d/x.bin", "y.bin", "plain.bin"):
        repository.write(name, "x")
    assert repository.call("git_add", paths=["c.txt", "y.bin"]).text == snapshot("by name")
    assert staged(repository) == set()
    assert repository.text("git_add", paths=["."]) == snapshot("in a folder")
    assert staged(repository) == {"A .gitattributes", "A plain.bin"}
    assert repository.refusal("git_add", paths=["d"]) == "nothing_staged"


def test_nested_repositories_are_not_staged(repository: GitRepository) -> None:
    inner = GitRepository.make(repository.folder / "inner")
    inner.commit("Inner", x_txt="1\n")
    repository.write("c.txt", "2\n")
    assert repository.text("git_add", paths=["."]).split("\n")[-1].endswith("inner/.")
    assert staged(repository) == {"M c.txt"}
    assert repository.refusal("git_add", paths=["inner"]) == "nothing_staged"


def test_unknown_and_ignored_paths_are_refused_and_unchanged_ones_reported(
    repository: GitRepository, snapshot: Snapshot
) -> None:
    repository.write(".gitignore", "*.log\n")
    repository.write("a.log", "x")
    repository.write("c.txt", "2\n")
    cases = {"unknown": ["c.txt", "nothing"], "ignored": ["c.txt", "a.log"], "odd": [":(top)c.txt"]}
    for name, paths in cases.items():
        assert repository.call("git_add", paths=paths).text == snapshot(name)
        assert staged(repository) == set()
    assert repository.text("git_add", paths=["d", "d/a.txt"]) == snapshot("unchanged")
    assert repository.refusal("git_add", paths=[]) == "invalid_arguments"


def test_conflict_is_resolved_by_staging(repository: GitRepository) -> None:
    repository.git("switch", "--quiet", "-c", "two")
    repository.commit("Two", c_txt="two\n")
    repository.git("switch", "--quiet", "main")
    repository.commit("One", c_txt="one\n")
    repository.git("merge", "two", is_checked=False)
    repository.write("c.txt", "both\n")
    assert repository.text("git_add", paths=["c.txt"]) == "Staged 1 file:\nM c.txt"
    assert repository.git("ls-files", "--unmerged") == ""
    assert "[main " in repository.text("git_commit", message="Both")
    assert len(repository.git("rev-list", "--parents", "-n1", "HEAD").split()) == 3


def test_many_files_are_counted(repository: GitRepository) -> None:
    for number in range(1_500):
        repository.write(f"n/{number:04}", "")
    lines = repository.text("git_add", paths=["."]).split("\n")
    assert (lines[0], lines[-1]) == ("Staged 1,500 files:", "[1,400 more files]")
    assert len(staged(repository)) == 1_500


def test_locked_index_is_reported_with_the_git_message(repository: GitRepository) -> None:
    repository.write("c.txt", "2\n")
    repository.write(".git/index.lock", "")
    outcome = repository.call("git_add", paths=["c.txt"])
    assert outcome.error_code == "git_error" and "index.lock" in outcome.text


def test_personal_folder_is_neither_staged_nor_compared(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "personal_folder", lambda: repository.folder / "own")
    repository.commit("All", own_txt="1\n")
    repository.write("own/tracked", "1\n")
    repository.git("add", "own")
    repository.commit("Own")
    for name in ("own/tracked", "own/new", "c.txt"):
        repository.write(name, "changed\n")
    assert repository.text("git_diff").count("+changed") == 1
    for name in ("git_add", "git_diff"):
        path = {"paths": ["own/new"]} if name == "git_add" else {"path": "own"}
        assert repository.refusal(name, **path) == "outside_work_dir"
    repository.text("git_add", paths=["."])
    assert staged(repository) == {"M c.txt"}
