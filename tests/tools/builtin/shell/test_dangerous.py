"""The check for dangerous commands: what it stops, and what only looks like it."""

from __future__ import annotations

import pytest

from agentnb.tools.builtin.shell.shell_group import dangerous_pattern

HITS = {
    "rm -rf /": "rm -rf /",
    "rm -fr /": "rm -rf /",
    "rm -r -f /": "rm -rf /",
    "rm  -rf   /": "rm -rf /",
    "rm -Rf /*": "rm -rf /",
    "rm -rf --no-preserve-root //": "rm -rf /",
    "rm --recursive --force -- /": "rm -rf /",
    "rm -rf '/' ": "rm -rf /",
    "cd /tmp; rm -rf build / tmp": "rm -rf /",
    "cd /tmp && sudo -n /bin/rm -rf /": "rm -rf /",
    "if true; then rm -rf /; fi": "rm -rf /",
    "echo $(rm -rf /)": "rm -rf /",
    'bash -c "rm -rf /"': "rm -rf /",
    "nohup sh -c 'sh -c \"rm -rf /\"' &": "rm -rf /",
    "rm -rf ~": "rm -rf ~",
    "rm -rf ~/": "rm -rf ~",
    "rm -rf $HOME/*": "rm -rf ~",
    'rm -rf "${HOME}"': "rm -rf ~",
    "mkfs": "mkfs",
    "mkfs.ext4 /dev/sda": "mkfs",
    "sudo /sbin/mkfs.xfs -f /dev/vdb": "mkfs",
    "dd if=/dev/zero of=/dev/sda": "dd if=/dev/",
    "dd bs=1M if=/dev/urandom of=disk": "dd if=/dev/",
    ":(){ :|:& };:": "fork bomb",
    ":() { : | : & } ; :": "fork bomb",
    "bomb() { bomb | bomb & }; bomb": "fork bomb",
    "echo 1 > /dev/sda": "> /dev/sd",
    "cat image >/dev/sdb1": "> /dev/sd",
    "cat image >>/dev/sdb 2>&1": "> /dev/sd",
    "chmod -R 777 /": "chmod -R 777 /",
    "chmod  777  -R  /": "chmod -R 777 /",
    "chmod --recursive a+rwx /": "chmod -R 777 /",
}
MISSES = [
    "rm -rf /tmp/x",
    "rm -rf /tmp/*",
    "rm -rf ~/build",
    "rm -rf ./",
    "rm -rf *",
    "rm -f /",
    "rm file /dev/null",
    "echo mkfs",
    "echo rm -rf /",
    "git commit -m 'never rm -rf / again; mkfs'",
    "grep -rn 'rm -rf /' .",
    "man mkfs.ext4",
    "echo ':(){ :|:& };:'",
    "cat > notes.md <<'END'\nrm -rf /\nEND\nwc notes.md",
    "# rm -rf /",
    "dd if=image of=copy",
    "dd if=data/dev/zero of=copy",
    "echo 1 > /dev/null",
    "echo '> /dev/sda'",
    "ls /dev/sda",
    "chmod -R 777 /srv/share",
    "chmod 777 /",
    "chmod -R 755 /",
    "echo 'rm -rf /",
    "",
]


@pytest.mark.req("R2.21", "R2.23")
def test_dangerous_commands_are_known_in_any_spelling(subtests: pytest.Subtests) -> None:
    for command, pattern in HITS.items():
        with subtests.test(command):
            assert dangerous_pattern(command) == pattern
    for command in MISSES:
        with subtests.test(command or "nothing"):
            assert dangerous_pattern(command) == ""
