"""Repository instructions for agents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.agent.agent import Agent
from agentnb.context.defaults import MAX_INSTRUCTIONS
from agentnb.context.repo_instructions import FILES, HEADING, RepoInstructions, repo_instructions, repo_root
from agentnb.models.scripted import ScriptedModel

NOTHING = RepoInstructions()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with nested folders."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    return root


# Which file


@pytest.mark.req("R2.37", "R2.39")
def test_first_existing_instruction_file_is_used(repo: Path) -> None:
    assert FILES == ("CLAUDE.md", "AGENT.md", "AGENTS.md")
    assert repo_instructions(repo) == NOTHING
    for file in reversed(FILES):
        (repo / file).write_text(f"From {file}.")
        assert repo_instructions(repo) == RepoInstructions(file, f"From {file}.")


@pytest.mark.req("R2.37")
@pytest.mark.parametrize("blank", ["", " \n\t\r\n ", "\ufeff", "\ufeff \n"])
def test_blank_instruction_file_is_skipped(repo: Path, blank: str) -> None:
    (repo / "CLAUDE.md").write_text(blank, encoding="utf-8")
    assert repo_instructions(repo) == NOTHING
    (repo / "AGENTS.md").write_text("Be kind.")
    assert repo_instructions(repo) == RepoInstructions("AGENTS.md", "Be kind.")


@pytest.mark.req("R2.37")
def test_instructions_are_stripped_and_line_endings_normalized(repo: Path) -> None:
    (repo / "CLAUDE.md").write_bytes("\ufeff\n\n  # Größe\r\n\r\n- One\r\n \n".encode())
    assert repo_instructions(repo).text == "# Größe\n\n- One"


@pytest.mark.req("R2.38")
def test_instruction_section_has_a_heading_and_the_text() -> None:
    assert HEADING == "## Repository Instructions"
    assert RepoInstructions("AGENT.md", "Be kind.").section == "## Repository Instructions\n\nBe kind."
    assert NOTHING.section == ""


# Which folder


@pytest.mark.req("R2.37")
def test_root_is_the_nearest_parent_with_git(repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("Outer.")
    (repo / "a" / "b" / "CLAUDE.md").write_text("Not at the root.")
    assert repo_root(repo / "a" / "b") == str(repo)
    assert repo_instructions(repo / "a" / "b").text == "Outer."
    (repo / "a" / ".git").write_text("gitdir: ../.git/worktrees/a\n")  # as in worktrees and submodules
    assert repo_root(repo / "a" / "b") == str(repo / "a")
    assert repo_instructions(repo / "a" / "b") == NOTHING
    (repo / "a" / "AGENT.md").write_text("Inner.")
    assert repo_instructions(repo / "a" / "b").text == "Inner."


@pytest.mark.req("R2.37")
def test_root_outside_a_repository_is_the_given_folder(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "CLAUDE.md").write_text("Not of this folder.")
    assert repo_root(inner) == str(inner)
    assert repo_instructions(inner) == NOTHING
    (inner / "AGENTS.md").write_text("Of this folder.")
    assert repo_instructions(inner).text == "Of this folder."


def test_relative_and_missing_folders_have_a_root(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "CLAUDE.md").write_text("Here.")
    monkeypatch.chdir(repo / "a")
    assert told_in(Path("b")) == told_in(Path("never") / "made") == "Here."


def test_linked_folder_uses_the_repository_of_its_target(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "CLAUDE.md").write_text("Where it is.")
    (tmp_path / "link").symlink_to(repo / "a")
    (tmp_path / "CLAUDE.md").write_text("Where the link is.")
    assert told_in(tmp_path / "link") == "Where it is."
    monkeypatch.chdir(tmp_path / "link")
    assert told_in(None) == "Where it is."


def told_in(folder: Path | None) -> str:
    """Return the instructions that an agent in this folder gets."""
    system = Agent(ScriptedModel([]), work_dir=folder).first_request("go").system
    return system.partition(f"{HEADING}\n\n")[2].partition("\n\n")[0]


# Files that are not read


@pytest.mark.req("R2.37")
def test_link_is_followed_only_inside_the_repository(repo: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("Not for the model.")
    (repo / "AGENTS.md").write_text("For all.")
    (repo / "CLAUDE.md").symlink_to("AGENTS.md")
    assert repo_instructions(repo) == RepoInstructions("CLAUDE.md", "For all.")
    for target in (secret, Path("..") / "secret.md", Path("a") / ".." / ".." / "secret.md"):
        (repo / "CLAUDE.md").unlink()
        (repo / "CLAUDE.md").symlink_to(target)
        assert repo_instructions(repo) == RepoInstructions("AGENTS.md", "For all.")


def test_link_through_a_folder_leaving_the_repository_is_ignored(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "repo-of-another").mkdir()  # its name starts like that of the repository
    (tmp_path / "repo-of-another" / "notes.md").write_text("Not for the model.")
    (repo / "notes").symlink_to(tmp_path / "repo-of-another")
    (repo / "CLAUDE.md").symlink_to(Path("notes") / "notes.md")
    assert repo_instructions(repo) == NOTHING


def unreadable(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    path.write_text("Secret.")
    path.chmod(0)


@pytest.mark.req("R2.37")
@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b"caf\xe9"),
        lambda path: path.write_bytes("Be kind.".encode("utf-16")),
        lambda path: path.write_bytes("Be kind.".encode("utf-16-le")),
        lambda path: path.symlink_to("CLAUDE.md"),
        lambda path: path.symlink_to("nowhere.md"),
        lambda path: os.mkfifo(path),
        unreadable,
    ],
    ids=["a folder", "Latin-1", "UTF-16", "UTF-16 without its mark", "a ring of links", "a dead link", "a pipe", "forbidden"],
)
def test_unreadable_instruction_file_is_skipped(repo: Path, make) -> None:  # type: ignore[no-untyped-def]
    make(repo / "CLAUDE.md")
    assert repo_instructions(repo) == NOTHING
    (repo / "AGENT.md").write_text("Be kind.")
    assert repo_instructions(repo) == RepoInstructions("AGENT.md", "Be kind.")


def test_unreadable_disk_is_treated_like_a_missing_file(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES:
        (repo / file).write_text("Be kind.")

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    for name in ("open", "is_file"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, fails)
            assert repo_instructions(repo) == NOTHING


def test_symlink_loop_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    assert repo_instructions(tmp_path / "ring") == NOTHING


# Maximum length


@pytest.mark.req("R2.38")
def test_overlong_instruction_file_is_truncated_with_a_note(repo: Path) -> None:
    (repo / "AGENT.md").write_text("\n \n" + "ü" * MAX_INSTRUCTIONS + "\n\n\n", encoding="utf-8")
    assert repo_instructions(repo).text == "ü" * MAX_INSTRUCTIONS
    (repo / "AGENT.md").write_text("\n" + "ü" * (MAX_INSTRUCTIONS + 1), encoding="utf-8")
    cut = repo_instructions(repo).text
    assert cut == "ü" * MAX_INSTRUCTIONS + "\n\n[Cut here: AGENT.md is longer than 32,000 characters]"


def test_truncation_is_at_the_end_of_a_line(repo: Path) -> None:
    line = "Never delete files, except those that end with .tmp."
    (repo / "CLAUDE.md").write_text(f"{line}\n" * 1000)
    *kept, blank, note = repo_instructions(repo).text.split("\n")
    assert set(kept) == {line} and blank == "" and note.startswith("[Cut here: CLAUDE.md")
    assert MAX_INSTRUCTIONS - 2 * len(line) < len("\n".join(kept)) <= MAX_INSTRUCTIONS


def test_line_that_just_fits_is_kept(repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("a" * (MAX_INSTRUCTIONS - 2) + "\nb\nc")
    assert repo_instructions(repo).text.startswith("a" * (MAX_INSTRUCTIONS - 2) + "\nb\n\n[Cut here")


def test_only_the_beginning_of_a_huge_file_is_read(repo: Path) -> None:
    with (repo / "CLAUDE.md").open("wb") as file:
        file.write(b"Be kind.\n" * 200_000)
        file.truncate(5_000_000)  # zeros follow, which are not text
    assert repo_instructions(repo).text.startswith("Be kind.\nBe kind.")


# Generated files

contents = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(lambda text: text.encode()),
    st.sampled_from([b"", b" \n", b"\xef\xbb\xbf", b"\xef\xbb\xbfBe kind.", b"\xff", b"a\0b", b"x" * (MAX_INSTRUCTIONS + 1)]),
)


def expected(content: bytes | None) -> str:
    """Return the expected text of a file with this content."""
    try:
        text = (content or b"").decode().removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip()
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text else text


@pytest.mark.req("R2.37", "R2.39")
@examples(150)
@given(st.lists(contents, min_size=3, max_size=3), st.integers(0, 3))
def test_first_file_with_text_is_used_whatever_its_content(
    tmp_path_factory: pytest.TempPathFactory, found: list[bytes | None], depth: int
) -> None:
    root = tmp_path_factory.mktemp("repo")
    (root / ".git").mkdir()
    for file, content in zip(FILES, found, strict=True):
        if content is not None:
            (root / file).write_bytes(content)
    texts = {file: text for file, content in zip(FILES, found, strict=True) if (text := expected(content))}
    file = next(iter(texts), "")
    instructions = repo_instructions(root.joinpath(*"abc"[:depth]))
    assert instructions.file == file
    if len(texts.get(file, "")) <= MAX_INSTRUCTIONS:
        assert instructions.text == texts.get(file, "")
    else:
        assert instructions.text.startswith(texts[file][:MAX_INSTRUCTIONS] + "\n\n[Cut here")
    assert instructions.section == (f"{HEADING}\n\n{instructions.text}" if file else "")
