"""A grammar of shell commands; bash really runs commands drawn from it."""

from __future__ import annotations

import re
from random import Random

GRAMMAR = {
    "script": (
        "⟨list⟩",
        "⟨list⟩",
        "⟨list⟩",
        "⟨list⟩⟨break⟩⟨list⟩",
        "⟨list⟩ &",
        "⟨list⟩;",
        "⟨here⟩\n⟨list⟩",
        "⟨list⟩\n⟨here⟩\n",
        "⟨function⟩⟨break⟩⟨call⟩",
    ),
    "list": ("⟨pipeline⟩", "⟨pipeline⟩⟨join⟩⟨pipeline⟩", "⟨pipeline⟩⟨join⟩⟨pipeline⟩", "⟨pipeline⟩⟨join⟩⟨list⟩"),
    "join": (" && ", " || ", "; ", ";", " & ", "&", "&&", "||", "\n", " # a b\n", "\n# it's\n", " &\\\n& ", " ;\\\n"),
    "break": ("\n", "\n\n", ";\n", " # ; rm x\n"),
    "pipeline": (
        "⟨command⟩",
        "⟨command⟩",
        "⟨command⟩",
        "⟨command⟩⟨pipe⟩⟨command⟩",
        "! ⟨command⟩",
        "time ⟨command⟩",
        "time -p ⟨command⟩",
    ),
    "pipe": (" | ", "|", "|&", " |\n"),
    "command": (
        "⟨simple⟩",
        "⟨simple⟩",
        "⟨simple⟩",
        "⟨simple⟩",
        "⟨simple⟩",
        "⟨compound⟩",
        "⟨compound⟩ ⟨redirection⟩",
        "⟨builtin⟩",
    ),
    "simple": (
        *("⟨program⟩⟨words⟩",) * 6,
        "⟨program⟩⟨words⟩ ⟨redirection⟩",
        "⟨program⟩ ⟨redirection⟩⟨words⟩",
        "⟨redirection⟩ ⟨program⟩⟨words⟩",
        "⟨assignment⟩ ⟨program⟩⟨words⟩",
        "⟨assignment⟩",
        "⟨redirection⟩",
    ),
    "program": (
        *("ls", "make", "git", "rm", "touch", "cat", "grep", "diff"),
        *(
            "\\ls",
            "'rm'",
            '"make"',
            "r''m",
            "to\\\nuch",
            '"to"uch',
            "$'rm'",
            "make\r",
            "\rls",
            "l\\s",
            "a-b",
            "if_",
            "}x",
            "a=b=c ls",
        ),
    ),
    "words": ("", " ⟨word⟩", " ⟨word⟩", " ⟨word⟩ ⟨word⟩", "\t⟨word⟩  ⟨word⟩ ⟨word⟩", " \\\n ⟨word⟩"),
    "word": (
        *(
            "x",
            "-rf",
            "--all",
            "a.txt",
            "HEAD~1",
            "a=b",
            "@{u}",
            "{}",
            "x#y",
            "é",
            "--out=⟨word⟩",
            "1",
            "2",
            "done",
            "x\ry",
            "]",
            "a]",
            "=",
        ),
        *("⟨quoted⟩", "⟨quoted⟩", "⟨expansion⟩", "⟨expansion⟩", "⟨word⟩⟨quoted⟩", "⟨quoted⟩⟨expansion⟩", "⟨word⟩⟨expansion⟩"),
        *("*", "in?", "{a,b}", "x{1..3}y", "~", "[a-z]*", "\\;", "\\⟨sign⟩", "!", "a\\\nb", "<(⟨list⟩)", "$"),
    ),
    "sign": (";", "&", "|", "<", ">", "(", ")", "'", '"', "`", "$", "#", " ", "*", "\\", "\n", "\t", "{", "}", "!", "\r"),
    "quoted": (
        *(
            "'⟨signs⟩'",
            '"⟨inner⟩"',
            '"⟨inner⟩⟨inner⟩"',
            "''",
            '""',
            "$'a\\tb\\'c'",
            "$'⟨letters⟩'",
            '"a\\\nb"',
            "'a\\\nb'",
            '"\\⟨escaped⟩"',
        ),
    ),
    "escaped": ("$", '"', "\\", "`", "a", "!"),
    "signs": ("", "a b", "it is; rm x", "$(rm x)", "`rm x`", '"', "a\nb", "\\", "#", "<<E", "&& ⟨letters⟩"),
    "letters": ("a", "b c", "z"),
    "inner": ("a b", "; rm x", "'", "⟨expansion⟩", "⟨expansion⟩", "# no", "a\nb", "$", ")", "}", "<(x)", "it's"),
    "expansion": (
        *(
            "$x",
            "${x}",
            "$1",
            "$?",
            "$#",
            "${x:-⟨word⟩}",
            "${x:+y}",
            '${x:-"⟨inner⟩"}',
            "${x#⟨letters⟩}",
            "${x%%.*}",
            "${x/a/b}",
            "${#x}",
            "${x:0:2}",
        ),
        *(
            "$(⟨list⟩)",
            "$(⟨simple⟩)",
            "$(\n⟨list⟩\n)",
            "$(⟨here⟩\n)",
            "$(case x in x) ⟨simple⟩;; esac)",
            "$( (⟨list⟩) )",
            "$(⟨simple⟩ # )\n)",
        ),
        *("`⟨plain⟩`", "`⟨plain⟩ \\`⟨plain⟩\\``", "$((1 + 2))", "$(( (1+2) * 3 ))", "$(<⟨file⟩)"),
    ),
    "plain": ("ls", "make x", "touch x y", "rm 'a b'", "git -c x"),
    "assignment": ("x=⟨word⟩", "x=", "x+=⟨quoted⟩", "x=⟨expansion⟩", "A_1=⟨word⟩ B=⟨word⟩", "l=(⟨word⟩ ⟨word⟩)", "l[1]=⟨word⟩"),
    "redirection": (
        *(
            ">⟨file⟩",
            "> ⟨file⟩",
            ">>⟨file⟩",
            "2>⟨file⟩",
            "<⟨file⟩",
            "2>&1",
            ">&2",
            "&>⟨file⟩",
            "&>>⟨file⟩",
            ">&⟨file⟩",
            ">|⟨file⟩",
            "<>⟨file⟩",
        ),
        *(
            "{n}>⟨file⟩",
            "3>⟨file⟩",
            "2>&-",
            "<<<⟨word⟩",
            "1\\\n>⟨file⟩",
            ">\\\n⟨file⟩",
            "> >(⟨simple⟩)",
            "< <(⟨simple⟩)",
            "10>⟨file⟩",
            "&>'⟨file⟩'",
        ),
    ),
    "file": (
        "out1",
        "out2",
        "'out 3'",
        '"out4"',
        "in1",
        "missing",
        "o\\ut5",
        "out\r6",
        "2x",
        "out$x",
        '"out⟨expansion⟩"',
        "{n}",
        "-",
        "'⟨signs⟩'",
    ),
    "here": (
        "cat <<E⟨rest⟩\n⟨text⟩\nE",
        "cat <<'E'⟨rest⟩\n⟨text⟩\nE",
        "cat <<-E⟨rest⟩\n\t⟨text⟩\n\tE",
        "cat <<\\E⟨rest⟩\n⟨text⟩\nE",
        '⟨program⟩ <<"E F" <<G⟨rest⟩\n⟨text⟩\nE F\n⟨text⟩\nG',
        "cat <<E⟨rest⟩\n⟨text⟩\\\nE\n⟨text⟩\nE",
    ),
    "rest": ("", "", " | ⟨simple⟩", " && ⟨simple⟩", "; ⟨simple⟩", " >⟨file⟩", " # E"),
    "text": (
        "a",
        "it's",
        '"',
        "$(⟨simple⟩)",
        "`⟨plain⟩`",
        "⟨expansion⟩",
        "\\$(rm x)",
        "\\\\$(make)",
        "rm x",
        "⟨text⟩\n⟨text⟩",
        " E",
        "E F G",
        "${x:-$(⟨simple⟩)}",
    ),
    "compound": (
        *(
            "(⟨list⟩)",
            "( ⟨list⟩ )",
            "{ ⟨simple⟩; }",
            "{ ⟨simple⟩\n}",
            "if ⟨simple⟩; then ⟨simple⟩; fi",
            "if ⟨simple⟩\nthen ⟨simple⟩\nelse ⟨simple⟩\nfi",
        ),
        "if ⟨simple⟩; then ⟨simple⟩; elif ⟨simple⟩; then ⟨simple⟩; fi",
        *(
            "for i in ⟨word⟩ ⟨word⟩; do ⟨simple⟩; done",
            "for i in 1 2\ndo\n⟨simple⟩\ndone",
            "for ((i=0; i<2; i++)); do ⟨simple⟩; done",
        ),
        *("while read -r x; do ⟨simple⟩; done", "until make; do ⟨simple⟩; done"),
        "case ⟨word⟩ in a|⟨word⟩) ⟨simple⟩;; (b*) ⟨simple⟩;& *) ⟨simple⟩ ;; esac",
        *(
            "case x in x) ⟨simple⟩\nesac",
            "[[ ⟨quoted⟩ == x* && -n ⟨word⟩ ]]",
            "[[ -f in1 ]]",
            "((n = 1 + 2))",
            "((n > 2)) && ⟨simple⟩",
        ),
    ),
    "builtin": (
        *(
            "cd ⟨file⟩",
            "echo⟨words⟩",
            "printf '%s' ⟨word⟩",
            "true",
            "export x=⟨quoted⟩",
            "test -f in1",
            "[ -n ⟨quoted⟩ ]",
            "set -e",
            "local x",
            "shift",
        ),
        *(
            "eval '⟨plain⟩'",
            'eval "⟨plain⟩; ⟨plain⟩"',
            "eval ⟨plain⟩",
            "trap '⟨plain⟩' EXIT",
            "command ⟨plain⟩",
            "builtin echo ⟨word⟩",
            "exec rm ⟨word⟩",
        ),
        *(
            "coproc ⟨plain⟩",
            "coproc { ⟨simple⟩; }",
            "command -v ls",
            "exec >⟨file⟩",
            "set -o pipefail",
            "read -r x <<<⟨quoted⟩",
            "unset x",
            ": ⟨word⟩",
        ),
    ),
    "function": (
        "do_it() { ⟨simple⟩; }",
        "do_it () ( ⟨list⟩ )",
        "function do_it { ⟨simple⟩; }",
        "function do_it() {\n⟨simple⟩\n} >⟨file⟩",
    ),
    "call": ("do_it", "do_it ⟨word⟩", "do_it | do_it; ⟨simple⟩"),
}
"""Each name with its alternatives."""
MAX_DEPTH = 5
DAMAGE = (*";&|<>()'\"`$#\\{}= \t\n\r*[]-1x", "\\\n", "$(", "<<E\n", "&>", "2>", "${", "((", ";;", "\n\n", "''", "#x")


def draw_command(random: Random, name: str = "script", depth: int = 0) -> str:
    """Draw a command; below a depth, from the alternatives with the fewest parts."""
    choices = GRAMMAR[name]
    if depth > MAX_DEPTH:
        parts = [choice.count("⟨") for choice in choices]
        choices = tuple(choice for choice, count in zip(choices, parts, strict=True) if count == min(parts))
    return re.sub(r"⟨(\w+)⟩", lambda found: draw_command(random, found[1], depth + 1), random.choice(choices))


def damaged(random: Random, command: str) -> str:
    """Return the command with one to three signs more or fewer."""
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(command))
        end = place if random.random() < 0.7 else place + random.randint(1, 3)
        command = command[:place] + random.choice(DAMAGE) * (random.random() < 0.9) + command[end:]
    return command


def grammar_block() -> str:
    """Return the grammar as a block of Markdown: each name with its alternatives, white space escaped."""
    lines = []
    for name, alternatives in GRAMMAR.items():
        shown = [
            repr(text)[1:-1] if "\n" in text or "\r" in text or "\t" in text else text for text in dict.fromkeys(alternatives)
        ]
        lines.append(f"{name} ::= " + "  │  ".join(text or "ε" for text in shown))
    return "```text\n" + "\n".join(lines) + "\n```\n"
