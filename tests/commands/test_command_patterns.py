"""Patterns of command rules: allowed, denied and offered commands."""

from __future__ import annotations

import re

import pytest

from agentnb.commands.command_patterns import command_glob, covers, forbids, offer_pattern, why_refused
from agentnb.commands.programs import program_forms
from agentnb.commands.shell_command import shell_command

COVERED = {
    "git diff *": 'git diff | git diff --stat a.py | git  diff | git diff -- $X | git diff "src/$X" | git diff 2>&1 >/dev/null',
    "git log *": "git log -n 3 --format=%h | git log -p -- src/app.py",
    "git log --output=* *": "git log --output=x -p",
    "git *": "git push | git -P log",
    "git foo *": "git foo x",
    "tar xf *": "tar xf a.tgz | tar xf a.tgz one two",
    "tar -xf *": "tar -xf a.tgz",
    "sed *": "sed -n 1,80p f | sed s/a/b/g f | sed -e '/x/d' -e 's/[ab]/c/2' f | sed '1{p;d}' f",
    "sed -i *": "sed -i s/a/b/ f",
    "awk *": "awk '{print $1}' f | awk -F, 'NR > 1 || $2 {sum += $2} END {print sum}' f",
    "python *": "python x.py -c y",
    "python -m pytest *": "python -m pytest -q -m slow",
    "python -c *": "python -c pass",
    "timeout 60 pytest *": "timeout 60 pytest -q",
    "sudo ls *": "sudo ls /root",
    "xargs wc *": "xargs wc -l",
    "ls *": "ls $X | ls *.py",
    "mytool *": "mytool --anything $X",
    "X=1 make *": "X=1 make test",
    "*": "git log --output=x | FOO=1 rm x",
    "ssh host uptime *": "ssh host uptime -p",
    "find . -exec grep * *": "find . -exec grep x {} +",
}
NOT_COVERED = {
    "git diff *": 'git diff --output=x | git diff --outp x | git diff $X | git diff "$X" | git diff *.py | git diff --$X'
    " | X=1 git diff | git diff > x | git diff < x | git diff <<< x | git -c a=b diff | GIT_PAGER=x git diff",
    "git log *": "git log --output=x | git log --show-signature | git log --format='%G?' | git log --ext-diff",
    "git log --output=a *": "git log --output=a --output=b",
    "git *": "git -c a=b log | git foo | git -C /x log | git bisect run x | git log --output=x | git $X"
    " | git submodule foreach ls",
    "git grep *": "git grep -O x | git grep -Oless x | git grep --open-files-in-pager=less x",
    "git fetch *": "git fetch --upload-pack=x | git fetch --upload-pack x origin",
    "git archive *": "git archive --exec=x --remote=y | git archive -o x HEAD",
    "tar xf *": "tar xf a --to-command=x | tar xf a -C d | tar xf a -Ix | tar xf h:a | tar xf a --checkpoint-action=exec=x",
    "tar *": "tar xf a | tar -cf b a",
    "make *": "make --eval=x | make -f x | make CC=x | make -C d",
    "zip *": "zip -TT x a | zip a b -T | zip -rT a b",
    "find *": "find . -delete | find . -exec rm {} + | find . -fprint x | find $X | find . -execdir x ;",
    "sed *": "sed -i s/a/b/ f | sed s/a/b/e f | sed 's/a/b/w x' f | sed 1w f | sed -f x f | sed '1e ls' f"
    " | sed -i.bak d f | sed \"$X\" f | sed 's/[/]/e;s/]/x/' f",
    "awk *": "awk '{print > \"x\"}' f | awk 'BEGIN{system(\"x\")}' | awk -f x f | awk '{\"x\" | getline}' | awk '@load \"x\"'",
    "sort *": "sort -o x y | sort y -ox | sort --compress-program=x y",
    "python *": "python -c x | python -m x | python -Wx.y y.py",
    "python -m pytest *": "python -m pip install x | python -m pytest -p x",
    "sqlite3 a.db *": "sqlite3 a.db '.shell x' | sqlite3 a.db 'select 1'",
    "timeout *": "timeout 5 rm x",
    "env *": "env ls | env X=1 ls | env -S 'ls'",
    "xargs *": "xargs rm",
    "sh *": "sh -c ls | sh -ec ls",
    "ssh *": "ssh host ls | ssh -oProxyCommand=x host",
    "tmux *": "tmux new -d ls",
    "rsync *": "rsync -e x a b | rsync -ax --rsh=x a b | rsync --log-file=x a b",
    "curl *": "curl -o x y | curl -sOL y | curl -K x | curl -w '%output{x}' y | curl -T x file:///y | curl --expand-output x y",
    "*test *": "X=1 mytest",
    "git config *": "git config core.fsmonitor x",
    "git for-each-ref *": "git for-each-ref --sort=signature:key",
    "pytest *": "pytest @f | pytest --tx=popen//python=x | pytest --report-log x",
    "go test *": "go test --exec=x | go test --ldflags=-extld=x | go test --coverprofile x",
    "man *": "man -P x ls | man -Hx ls",
    "less *": "less +!x f | less -o x f",
    "docker compose *": "docker compose exec web ls",
    "cargo *": "cargo install x",
}


def is_covered(pattern: str, text: str) -> bool:
    command = shell_command(text)
    return command.is_list and all(covers(pattern, part) for part in command.parts[: command.listed])


def test_pattern_covers_exactly_its_documented_commands(subtests: pytest.Subtests) -> None:
    for expected, cases in ((True, COVERED), (False, NOT_COVERED)):
        for pattern, texts in cases.items():
            for text in re.split(r" \| (?!getline)", texts):
                with subtests.test(f"{pattern} {text}"):
                    assert is_covered(pattern, text) == expected


FORBIDDEN = {
    "rm -rf *": "rm -rf x | rm -fr x | rm -r -f x | rm -R -f x | rm --recursive --force x | rm x -rf | rm -rfv x"
    " | /bin/rm -rf x | 'rm' -rf x | r\\m -r -f x | rm --rec --fo x | rm -rf | rm -rf -- x | X=1 rm -fr x"
    " | ls; rm -fr x | rm -fr x > y",
    "rm --recursive *": "rm -r x | rm -Rv x",
    "rm -r* *": "rm -rf x | rm --recursive x | rm -R x",
    "rm *": "env rm x | env -i A=1 rm x | sudo -u me rm x | nice -n 5 rm x | nohup rm x | timeout 5 rm x"
    " | xargs rm | find . -exec rm {} + | sh -c 'rm x' | bash -ec 'ls; rm x' | bash -c \"rm x\" | eval rm x"
    " | command rm x | exec rm x"
    " | time rm x | stdbuf -o0 rm x | setsid rm x | chroot / rm x | watch -n1 rm x | trap 'rm x' EXIT | env -S 'rm x'"
    " | linux32 rm x | perf stat rm x"
    " | ssh host rm x | /lib64/ld-linux-x86-64.so.2 /bin/rm x | uv run rm x | docker run --rm -it image rm x"
    " | npx rm x | python -m rm x"
    " | sudo env nice rm x | find . -execdir rm {} ; | git bisect run rm x | git submodule foreach rm x | rm $X",
    "git push --delete *": "git push origin :main | git push -d origin main",
    "git push --force *": "git push origin +main | git push origin -- +HEAD:main"
    " | git push origin x -f | git -C d push -f | git push --force | git -P push --forc x",
    "git push *": "git -C d push x | git push | git --no-pager push",
    "git push origin main": "git push origin main | git push -q origin main",
    "/usr/bin/rm *": "rm x",
    "git push -o ci.skip *": "git push origin --push-option=ci.skip | git push -oci.skip",
    "tar -x *": "tar xf a | tar --extract -f a | tar -vxf a",
}
NOT_FORBIDDEN = {
    "rm -rf *": "rm -r x | rm -- -rf | git rm -rf x | ls -rf | echo 'rm -rf x' | rm \"./$X\"",
    "git push --delete *": "git push origin main | git push origin : | git push origin +main:x",
    "git push --force *": 'git push | git commit -m "$X" | git push origin main | git push --force-with-lease',
    "git push *": "git commit -m push | git log push | git stash push | echo git push",
    "git push origin main": "git push origin dev | git push",
    "rm data/*": "rm src/x",
}
UNCLEAR = {
    "rm -rf *": 'rm $X | rm "$X" | rm *.py | $X -rf y | rm -$X y',
    "git push --force *": 'git $X -f | git push $X | git push "$X" | $X',
    "rm data/*": "rm $X | rm -r d*",
    "rm *": 'env $X | sh | bash -c "$X" | xargs | tmux new -d ls | parallel rm ::: x | sudo --what ls | capsh -- -c ls | $X'
    " | valgrind --tool x ls",
    "*push*": "git $X",
}
UNCLEAR["rm *"] = UNCLEAR["rm *"].replace(" | xargs |", " |")


def limit(pattern: str, text: str) -> bool | None:
    command = shell_command(text)
    result = [forbids(pattern, part) for part in command.parts]
    return True if True in result else None if None in result or command.problem else False


def test_deny_pattern_applies_in_each_order_and_spelling(subtests: pytest.Subtests) -> None:
    for expected, cases in ((True, FORBIDDEN), (False, NOT_FORBIDDEN), (None, UNCLEAR)):
        for pattern, texts in cases.items():
            for text in texts.split(" | "):
                with subtests.test(f"{pattern} {text}"):
                    assert limit(pattern, text) is expected


def test_options_of_an_unlisted_program_are_refused_with_a_suggestion() -> None:
    refused = {
        "mytool -x *": "mytool *",
        "./run --all": "./run *",
        "* --force *": "git push --force *",
        "-rf *": "git push --force *",
        "rm -rf *": "",
    }
    refused |= {"mytool *": "", "*sudo*": "", "git foo --bar *": "", "echo -": ""}
    assert {pattern: why_refused(pattern) for pattern in refused} == refused


OFFERED = {
    "git status -s": "git status *",
    "git log -n 3": "git log *",
    "git diff HEAD": "git diff *",
    "git grep x": "git grep *",
    "git fetch origin": "git fetch *",
    "git archive HEAD": "git archive *",
    "git push origin main": "git push *",
    "find . -name x": "find *",
    "sed -n 1p f": "sed *",
    "sort f": "sort *",
    "make test": "make *",
    "zip -r a.zip d": "zip -r a.zip d",
    "rsync -a a b": "rsync -a a b",
    "curl https://x.org": "curl *",
    "npm run build": "npm run *",
    "pytest tests/test_a.py -q": "pytest *",
    "uv pip list": "uv pip list *",
    "/usr/bin/git log": "/usr/bin/git log *",
    "ls": "ls *",
    "python x.py": "python x.py",
    "./run.sh all": "./run.sh all",
    "mytool -x y": "mytool -x y",
    "ls; ls -l": "ls *",
    "ls *.py $X": "ls *",
    "git commit -m 'a b'": "git commit *",
    "python -m pytest -q": "python -m pytest *",
    "python3 -m mine": "python3 -m mine",
    "uv run pytest -q": "uv run pytest *",
    "npx tsc --noEmit": "npx tsc --noEmit",
    "git stash": "git stash",
    "git stash pop": "git stash pop *",
    "git config user.name": "git config user.name",
    "cargo test": "cargo test *",
    "docker compose ps": "docker compose ps *",
    "dd if=a of=b": "dd if=a of=b",
    "sqlite3 a.db x": "sqlite3 a.db x",
}
NOT_OFFERED = (
    "tar xf a.tgz | git log --output=x | python -c x | sudo ls | xargs rm | find . -delete | X=1 git status | git status; rm x"
    " | 'git status' | ls > x | git -c a=b log | git foo | env ls | docker compose exec web ls | export PATH=x"
    " | sed -i s/a/b/ f | sh -c ls | make -f x | ssh host ls | cd x && ./run"
)


def test_offered_pattern_covers_the_command_but_no_dangerous_form(subtests: pytest.Subtests) -> None:
    for text, pattern in OFFERED.items():
        with subtests.test(text):
            command = shell_command(text)
            assert offer_pattern(command, command.parts) == pattern and is_covered(pattern, text)
            form = program_forms().get(pattern.removesuffix(" *").rpartition("/")[2])
            for name, value in () if form is None else (*form.starts, *form.writes):
                value = value.replace("*", "a:%G%output") or "x"
                options = f"{name}={value}" if name.startswith("--") else f"{name} {value}"
                assert not is_covered(pattern, f"{pattern.removesuffix(' *')} {options}"), options
            assert not is_covered(pattern, f"A=1 {text}") and not is_covered(pattern, f"{text} > x")


def test_patterns_are_not_offered_for_starting_or_writing_commands(subtests: pytest.Subtests) -> None:
    for text in NOT_OFFERED.split(" | "):
        with subtests.test(text):
            command = shell_command(text)
            assert offer_pattern(command, command.parts) == ""


def test_final_star_matches_zero_or_more_complete_words() -> None:
    matches = {
        text
        for text in ("git status", "git status -s", "git statusx", "git stat")
        if re.fullmatch(command_glob("git status *"), text)
    }
    assert matches == {"git status", "git status -s"}
    assert re.fullmatch(command_glob("git status*"), "git statusx") and re.fullmatch(command_glob("*"), "anything at all")
    assert not re.fullmatch(command_glob("a.b [c]"), "axb c") and re.fullmatch(command_glob("a.b [c]"), "a.b [c]")


def test_many_stars_match_in_bounded_time() -> None:
    for pattern in ("*x*x*y", "*x*x*x*x*y", "git *x*x*x*x*x*y *"):
        assert not re.fullmatch(command_glob(pattern), "x" * 20_000)
    assert re.fullmatch(command_glob("*a*ab*b"), "xaabb") and not re.fullmatch(command_glob("*ab*ab"), "xab")
