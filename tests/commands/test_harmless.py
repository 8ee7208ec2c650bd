"""Harmless commands, and commands that are not."""

from __future__ import annotations

import pytest

from agentnb.commands.harmless import is_harmless
from agentnb.commands.shell_command import shell_command

HARMLESS = """
ls -la | head -20
cat a | sort -rn | uniq -c | tail -5
git status && git diff --stat HEAD~1
git log --format=%h -n 3 -- src
git -C sub status
git add -A
git branch -D old
git config --get user.name
grep -rn "def main" src
find . -name '*.py' -exec grep -l x {} +
find . -name x | xargs wc -l
find build -delete
sed -n 1,80p f
sed -i s/a/b/ src/f
awk '{print $1}' f
sort -o out f
mkdir -p build/out; touch build/out/x; rm -rf build dist *.egg-info
cp -r src build
cp src/a .
mv old new
chmod +x run.sh
tee -a log < f
echo $HOME > out
ls 2>/dev/null || echo no >&2
cat < /etc/hosts
x=1
LC_ALL=C sort f
cd src && ls
export foo=1
read -r line
printf '%s' x
tar tzf a.tgz
python --version
env LC_ALL=C nice ls
timeout 5 ls
command -v git
trap 'rm -f x' EXIT
ruff check src
set -euo pipefail
/usr/bin/ls
kill 1
gzip -ck f
sed -i.bak s/a/b/ f
sed -i -e s/a/b/ f
find . -fprintf x y
"""
NOT_HARMLESS = """
mytool
./ls
/tmp/ls
git commit -m x
git -C ../other add -A
git -c a=b status
git diff --ext-diff
git foo
git fetch
git config user.name x
git remote add a b
python x.py
python -c pass
make
pytest
sh x.sh
rm ../x
rm /etc/hosts
rm $X
rm -r .
rm .*
cp x .git/config
cp -r sub/.git .
cp x y/config
mv x HEAD
tee .git/hooks/post-commit
echo x > .git/config
echo x > ../x
echo x > $X
echo x > ~/x
echo x > .agentnb/x
cat < /dev/tcp/a/80
find . -delete
find . -exec ./x {} +
find . -fprint ../x
find . $X
find . | xargs ./x
sed -i s/a/b/ .git/config
sed 's/a/b/e' f
sort -o .git/config f
sort --compress-program=x f
awk '{print > "x"}' f
PATH=. ls
LD_PRELOAD=x ls
PAGER=x git log
X=1
PATH=.
http_proxy=x
export PATH=.
export $X
read PATH
IFS=x
env PATH=. ls
env -C / ls
env -S ls
tar xf a
tar tf a --to-command=x
ln -s .git g
cp -s a b
printf -v PATH x
hash -p ./x ls
mapfile -C x a
set -k
time -o ../x ls
alias ls=x
sed -i.bak s/a/b/ .git/config
sed -iD s/a/b/ HEA
sed -i -e s/a/b/ .git/config
find . -fprintf HEAD x
gunzip HEAD.gz
cp -S D -b x HEA
cp -rt sub a/.git
awk -W exec x
iconv -o .git/x f
git tag --format='%(signature)'
git branch --sort=signature
git fsck --lost-found
git rm --pathspec-from-file=f
git rm :/x
cp --parents sub/.git/hooks/x out
chmod --reference=f ../x
chmod -x ../x
ruff format ../x
ruff check --config 'fix = true' ../x
arch -arm64 ls
base64 -o ../x f
zstd -c --trace ../x f
man ls
sudo ls
ssh host ls
curl -o x y
"""


def can_write(path: str) -> bool:
    parts = path.split("/")
    return path != "." and not path.startswith(("/", "~")) and not {"..", ".git", ".agentnb", "config", "HEAD"} & set(parts)


def test_commands_that_run_no_hidden_commands_are_harmless(subtests: pytest.Subtests) -> None:
    for expected, texts in ((True, HARMLESS), (False, NOT_HARMLESS)):
        for text in texts.strip().splitlines():
            with subtests.test(text):
                command = shell_command(text)
                assert all(is_harmless(part, can_write) for part in command.parts) == expected
                assert command.parts
