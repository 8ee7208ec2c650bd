"""Sentences are for people: no code decides by one, and below the session none names a command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from parsed import PACKAGE, trees, walk

READS_OTHERS = ("interchange/formats/", "models/", "core/log/older_logs.py")
"""Rooms and files that read texts of other products, or our own logs of earlier schemas."""
READ = {
    "detect/blocks/signatures.py": "results of tools",
    "rerun/code/to_test.py": "an expression",
    "tools/mcp/connections/refusal.py": "responses of servers",
}
"""Files that compare longer texts, and which."""
NAMING = re.compile(r"\{(?:errors\.)?near(?:est)?\(")
"""A text made of what is advice."""
READ_ERRORS_OF_OTHERS = {"notebook/magic_errors.py", "interchange/yaml_text.py"}
"""Files that cut the texts of errors of IPython and of the YAML library."""
METHODS = (
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
    "split",
    "find",
    "index",
    "count",
)
PATTERNS = ("compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer")
COMMAND = re.compile(
    r"(?<![%\w])%%?(?:agent|workflow|guidance|traces|pip|cd|writefile|load_ext)\b"
    r"|\bagentnb (?:exec|runs|show|recover|answer|table|validate)\b"
)
"""A magic, or a command of a shell."""
NAMES_COMMANDS = {
    "advice.py",
    "core/log/older_logs.py",
    "display/texts/notebook_commands.py",
    "tools/builtin/github/api_errors.py",
}
"""The sentences of older logs; the table of the card, whose HTML is made in display; what a model passes on to the person.

The table of Python: a script cannot log in, and the person does it in a notebook.
"""
ROOMS_BELOW_SESSION = (
    "core",
    "models",
    "tools",
    "runtime",
    "agent",
    "workflow",
    "plots",
    "tables",
    "interchange",
    "store",
    "detect",
    "policies",
    "context",
    "guidance",
    "rerun",
    "display",
    "testing",
    "settings.py",
    "errors.py",
    "advice.py",
)


def literals(node: ast.AST) -> Iterator[str]:
    """The texts within an expression."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def is_sentence(text: str) -> bool:
    return len(text.split()) >= 3


def is_sentence_of_a_pattern(pattern: str) -> bool:
    """True if a pattern has three consecutive words, such as ``Did you mean``."""
    return (
        re.search(r"[A-Za-z]{2,} [A-Za-z]{2,} [A-Za-z]{2,}", re.sub(r"\\[a-zA-Z]|\(\?[a-zA-Z<>=!:]+", " ", pattern)) is not None
    )


def constants(tree: ast.Module) -> dict[str, str]:
    """The texts that a module gives a name."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def imported(tree: ast.Module, known: dict[str, dict[str, str]]) -> dict[str, str]:
    """The texts among what a module imports, by the names that they have there."""
    return {
        alias.asname or alias.name: known[node.module][alias.name]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module in known
        for alias in node.names
        if alias.name in known[node.module]
    }


def compared(tree: ast.Module, named: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The line and text of each literal of three words or more that code compares with."""

    def texts(node: ast.AST) -> Iterator[str]:
        yield from literals(node)
        yield from (named[each.id] for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in named)

    for node in walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            yield from ((node.lineno, text) for side in sides for text in texts(side) if is_sentence(text))
        elif isinstance(node, ast.MatchValue):
            yield from ((node.lineno, text) for text in texts(node) if is_sentence(text))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_pattern = isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in PATTERNS
            if is_pattern:
                yield from ((node.lineno, text) for text in texts(node.args[0]) if is_sentence_of_a_pattern(text))
            elif node.func.attr in METHODS:
                yield from ((node.lineno, text) for text in texts(node.args[0]) if is_sentence(text))


def sentences_compared() -> Iterator[str]:
    """The place and text of each comparison with a sentence, but for files that read texts of others."""
    known = {module_of(file): constants(tree) for file, tree in trees().items()}
    for file, tree in trees().items():
        path = file.relative_to(PACKAGE).as_posix()
        if not path.startswith(READS_OTHERS):
            named = {**known[module_of(file)], **imported(tree, known)}
            yield from (f"{path}:{line}: {text}" for line, text in compared(tree, named))


def module_of(file: Path) -> str:
    """The name under which a file is imported."""
    return ".".join(("agentnb", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def test_code_never_branches_on_message_text() -> None:
    found = set(sentences_compared())
    assert {place for place in found if place.partition(":")[0] not in READ} == set()
    assert set(READ) - {place.partition(":")[0] for place in found} == set()


def test_suggested_names_are_written_only_by_advice() -> None:
    written = {
        f"{file.relative_to(PACKAGE).as_posix()}:{node.lineno}"
        for file, tree in trees().items()
        for node in walk(tree)
        if (isinstance(node, ast.JoinedStr) and NAMING.search(ast.unparse(node)))
        or (isinstance(node, ast.Constant) and "Did you mean" in str(node.value))
    }
    assert {place for place in written if not place.startswith("advice.py:")} == set()
    assert NAMING.search('f"{near(name, known)} Or wait"') and not NAMING.search('f"{linear(x)}"')


def texts_of_errors_cut(tree: ast.Module) -> Iterator[int]:
    """The lines that search or cut the text of an error of ours: ``error.what``, ``error.hint``, ``str(error)``."""
    for node in walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            text = node.func.value
            if ast.unparse(text) == "str(error)" or (isinstance(text, ast.Attribute) and text.attr in ("what", "hint")):
                yield node.lineno


def test_code_never_parses_the_text_of_an_error() -> None:
    found = {
        f"{path}:{line}"
        for file, tree in trees().items()
        if not (path := file.relative_to(PACKAGE).as_posix()).startswith(READS_OTHERS)
        for line in texts_of_errors_cut(tree)
    }
    assert {place for place in found if place.partition(":")[0] not in READ_ERRORS_OF_OTHERS} == set()
    assert READ_ERRORS_OF_OTHERS - {place.partition(":")[0] for place in found} == set()
    broken = ast.parse('a = error.what.partition(" ")\nb = str(error).removeprefix(x)\nc = error.hint\n')
    assert [*texts_of_errors_cut(broken)] == [1, 2]


def test_messages_below_the_session_layer_name_no_command() -> None:
    found = {
        f"{path}:{node.lineno}: {node.value[:80]}"
        for file, tree in trees().items()
        if (path := file.relative_to(PACKAGE).as_posix()).startswith(ROOMS_BELOW_SESSION)
        for node in texts_to_show(tree)
        if COMMAND.search(node.value)
    }
    assert {place for place in found if place.partition(":")[0] not in NAMES_COMMANDS} == set()
    assert NAMES_COMMANDS - {place.partition(":")[0] for place in found} == set()


def texts_to_show(tree: ast.Module) -> Iterator[ast.Constant]:
    """The texts of a module, without docstrings."""
    docstrings = {
        id(statement.value)
        for statement in walk(tree)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def test_comparisons_with_message_text_are_detected() -> None:
    tree = ast.parse(
        'SAID = "It is suspended: answer it"\n'
        'a = error.hint == "Run the cell again"\n'
        'b = "still open since then" in text\n'
        "c = hint.startswith(SAID)\n"
        'd = re.compile(r"(?i)Did you mean (.*)")\n'
        'e = kind == "error"\n'
        'f = re.compile(r"(?P<a>x) \\\\w+ \\\\d+")\n'
    )
    assert [line for line, _ in compared(tree, constants(tree))] == [2, 3, 4, 5]
