"""``git_diff``: changes, bounds, and skipped files."""

from __future__ import annotations

from pathlib import Path

from asserted_sentences import Snapshot
from git_repositories import GitRepository, call_tool


def test_diff_shows_unstaged_or_staged_changes_below_a_path(repository: GitRepository, snapshot: Snapshot) -> None:
    assert repository.text("git_diff") == "No unstaged changes."
    assert repository.text("git_diff", staged=True) == "No staged changes."
    repository.write("c.txt", "staged\n")
    repository.git("add", "c.txt")
    for name in ("d/a.txt", "d/b.txt", "c.txt"):
        repository.write(name, "2\n")
    text = repository.text("git_diff", path="d/a.txt")
    assert text.split("\n")[-3:] == ["@@ -1 +1 @@", "-1", "+2"] and "b.txt" not in text
    assert "+staged" in repository.text("git_diff", staged=True)
    assert "d/a.txt" in repository.text("git_diff", path="d") and "c.txt" not in repository.text("git_diff", path="d")
    assert "c.txt" not in call_tool("git_diff", repository.folder / "d").text
    (repository.folder / "d/a.txt").unlink()
    assert "deleted file" in repository.text("git_diff", path="d/a.txt")
    assert repository.refusal("git_diff", path="../x") == "outside_work_dir"


def test_staged_changes_are_shown_before_the_first_commit(tmp_path: Path) -> None:
    repository = GitRepository.make(tmp_path / "new")
    repository.write("a.txt", "1\n")
    repository.git("add", "a.txt")
    assert "+1" in repository.text("git_diff", staged=True)


def test_diff_omits_key_files_and_names_them(repository: GitRepository, snapshot: Snapshot) -> None:
    for name in (".env", "d/x.pem", "d/.env.example", "[x].key"):
        repository.write(name, "public\n")
    repository.commit("Keys")
    for name in (".env", "d/x.pem", "d/.env.example", "[x].key"):
        repository.write(name, "hidden\n" if name != ".env" else "hidden\n" + "the same\n" * 9)
    text = repository.text("git_diff")
    assert text.count("hidden") == 1 and "d/.env.example" in text
    assert text.split("\n")[-1] == snapshot
    assert "hidden" not in repository.text("git_diff", path=".env")
    assert "hidden" not in call_tool("git_diff", repository.folder / "d", path="x.pem").text
    repository.git("add", "--all")
    assert repository.text("git_diff", staged=True).count("hidden") == 1
    # Renamed, it is still the same file.
    repository.commit("More")
    repository.git("mv", ".env", "settings.txt")
    repository.write("settings.txt", "more\n" + "the same\n" * 9)
    repository.git("add", "--all")
    assert "more" not in repository.text("git_diff", staged=True)


def test_long_diff_keeps_its_beginning_and_end(repository: GitRepository) -> None:
    repository.write("c.txt", "".join(f"line {number}\n" for number in range(20_000)))
    text = repository.text("git_diff")
    assert len(text) < 41_000
    lines = text.split("\n")
    assert lines[0].startswith("diff --git") and lines[-1] == "+line 19999"
    marks = [line for line in lines if not line.startswith(("+", "-", " ", "@", "diff", "index"))]
    assert len(marks) == 1 and "left out" in marks[0]


def test_diffs_of_binary_and_odd_encodings_become_text(repository: GitRepository) -> None:
    (repository.folder / "c.txt").write_bytes(b"caf\xe9\n")
    (repository.folder / "d/a.txt").write_bytes(b"\0\1\2")
    repository.write("d/b.txt", "größe\n")
    text = repository.text("git_diff")
    assert "+caf\ufffd" in text and "Binary files" in text and "+größe" in text


def test_user_settings_do_not_change_the_diff_format(repository: GitRepository) -> None:
    repository.write("d/a.txt", "2\n")
    usual = repository.text("git_diff")
    settings = {
        "color.ui": "always",
        "color.diff": "always",
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "0",
        "diff.orderFile": "nowhere",
        "diff.relative": "true",
    }
    for name, value in settings.items():
        repository.configure(name, value)
    assert repository.text("git_diff") == usual


def test_diff_names_files_that_have_a_filter(repository: GitRepository) -> None:
    repository.write(".git/info/attributes", "*.txt filter=lfs\n")
    repository.write("c.txt", "2\n")
    assert "c.txt" in repository.text("git_diff").split("\n")[-1] and "(lfs)" in repository.text("git_diff")
