"""Shell commands: parts, nested commands, and commands that cannot be parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.commands.programs import program_forms
from agentnb.commands.reader import read_script
from agentnb.commands.shell_command import OF_BASH, PLAIN, shell_command

PARTS = {
    "git status -s": ["git status -s"],
    "ls && /bin/rm x || true": ["ls", "/bin/rm x", "true"],
    "if a; then b; fi | while c; do d; done": ["a", "b", "c", "d"],
    "echo $(a `b`) <(c)": ["echo $(a `b`) <(c)", "a `b`", "b", "c"],
    "f() { a; }; f": ["a", "f"],
    "sudo -u me env X=1 nice a b": ["sudo -u me env X=1 nice a b", "env X=1 nice a b", "nice a b", "X=1 nice a b", "a b"],
    "find . -exec a {} + -execdir b ;": ["a {}", "b"],
    "xargs -I {} a {}": ["a {}"],
    "bash -c 'a; b' c": ["a", "b"],
    "ssh -p 22 host 'a; b'": ["a", "b"],
    "trap 'a' EXIT": ["a"],
    "command -v a": ["command -v a"],
    "python -m a b": ["a b"],
    "X=1": ["X=1"],
}
"""Commands, and some of their parts."""
UNCLEAR = """
$X y
env $X
bash -c "$X"
bash
tmux new a
sudo --what a
xargs -J a b
env -S 'a $X'
echo 'a[$(b)]'
ls &>out rm
echo 'open
bash -c 'a; "'
eval "$X"
nice -x a
"""
CLEAR = (
    "echo $HOME | ls *.py | tmux | sh x.sh | ls > x 2>&1 | cat <<< x | env | timeout 5 $X/a | valgrind --tool=x a | trap - INT"
)


def test_every_visible_command_becomes_a_part(subtests: pytest.Subtests) -> None:
    for text, parts in PARTS.items():
        with subtests.test(text):
            command = shell_command(text)
            assert not command.problem and set(parts) <= {part.text for part in command.parts} | {p.raw for p in command.parts}


def test_unparsable_commands_are_reported(subtests: pytest.Subtests) -> None:
    for text in UNCLEAR.strip().splitlines():
        with subtests.test(text):
            assert shell_command(text).problem
    for text in CLEAR.split(" | "):
        with subtests.test(text):
            assert bool(shell_command(text).problem) == ("$X/a" in text)


def test_parsing_nested_commands_ends_in_time() -> None:
    assert shell_command("env " * 50 + "a").problem and shell_command("env " * 3 + "a").parts[-1].raw == "a"


WORDS = st.text(st.sampled_from("ab1-=./:@%+,_~ "), max_size=12)
PROGRAMS = st.sampled_from([name for name, form in program_forms().items() if " " not in name and form.source != OF_BASH])


@examples(200)
@given(PROGRAMS, WORDS)
def test_plain_command_shortcut_matches_the_full_reader(program: str, rest: str) -> None:
    text = f"{program} {rest}"
    parts = shell_command(text).parts
    commands = read_script(text).commands
    assert [part.words for part in parts[: len(commands)]] == [command.words for command in commands] or not PLAIN.fullmatch(
        text
    )


@examples(150)
@given(st.text(max_size=40))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    assert shell_command(text).text == text


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("cat .env", (".env",)),
        ("grep -r KEY conf/.env | head", ("conf/.env",)),
        ("docker run --env-file=prod.env image", ("prod.env",)),
        ("sh -c 'cat .env'", (".env",)),
        ("cat < secrets.toml", ("secrets.toml",)),
        ("ssh -i ~/.ssh/id_rsa host", ("~/.ssh/id_rsa",)),
        ("cp .env.example notes.txt", ()),
        (".env", ()),
        ("ls", ()),
    ],
)
def test_key_files_named_in_a_command_are_recognized(line: str, files: tuple[str, ...]) -> None:
    assert shell_command(line).key_files == files
