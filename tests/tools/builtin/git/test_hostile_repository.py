"""A hostile repository makes git run nothing: each case plants a program that plain git runs and no tool runs."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from git_repositories import PLAIN, GitRepository
from property_settings import size

Plant = Callable[["Hostile"], None]
Plain = Callable[["Hostile"], object]

SIX = (
    ("git_status", {}),
    ("git_diff", {}),
    ("git_diff", {"staged": True}),
    ("git_log", {"count": 5}),
    ("git_add", {"paths": ["."]}),
    ("git_commit", {"message": "By a tool"}),
    ("git_branch", {"action": "list"}),
    ("git_branch", {"action": "create", "name": "new"}),
    ("git_branch", {"action": "switch", "name": "other"}),
)
"""Calls of all six tools."""


class Hostile(GitRepository):
    """A repository with a program that leaves a mark when it runs."""

    @property
    def marker(self) -> Path:
        return self.folder.with_suffix(".marker")

    @property
    def program(self) -> str:
        """Return a program that prints its input."""
        path = self.folder / ".git" / "evil"
        if not path.exists():
            path.write_text(f"#!/bin/sh\ntouch '{self.marker}'\ncat\n")
            path.chmod(0o755)
        return str(path)

    @property
    def silent(self) -> str:
        """A shell command that leaves the mark and reads nothing."""
        return f"touch '{self.marker}';:"

    def hook(self, name: str, folder: str = ".git/hooks") -> None:
        """Plant a hook."""
        path = self.write(f"{folder}/{name}", f"#!/bin/sh\ntouch '{self.marker}'\n")
        path.chmod(0o755)

    def attributes(self, line: str) -> None:
        """Write attributes outside of the history."""
        self.write(".git/info/attributes", line + "\n")

    def on_terminal(self, *arguments: str) -> None:
        """Run plain git in a terminal and type q."""
        ours, its = pty.openpty()
        os.write(ours, b"q\n")
        try:
            environment = {"PATH": PLAIN["PATH"], "HOME": str(Path.home()), "TERM": "xterm"}
            subprocess.run(
                ["git", *arguments], cwd=self.folder, env=environment, stdout=its, stdin=its, timeout=60, check=False
            )
        finally:
            os.close(ours)
            os.close(its)


def plain(*arguments: str, stdin: str = "", **variables: str) -> Plain:
    return lambda repository: repository.git(*arguments, stdin=stdin, is_checked=False, **variables)


def settings(attributes: str = "", **values: str) -> Plant:
    """Plant settings (``diff__external`` is ``diff.external``): ``{program}`` and ``{silent}`` are filled in."""

    def plant(repository: Hostile) -> None:
        for name, value in values.items():
            filled = value.replace("{program}", repository.program).replace("{silent}", repository.silent)
            repository.configure(name.replace("__", "."), filled)
        if attributes:
            repository.attributes(attributes)

    return plant


def hook(name: str) -> Plant:
    return lambda repository: repository.hook(name)


def plant_hooks_elsewhere(repository: Hostile) -> None:
    repository.hook("pre-commit", ".git/others")
    repository.configure("core.hooksPath", ".git/others")


def plant_attributes_file(repository: Hostile) -> None:
    repository.write(".git/others", "* filter=evil\n")
    settings(filter__evil__clean="{program}", core__attributesFile=str(repository.folder / ".git/others"))(repository)


def plant_tracked_attributes(repository: Hostile) -> None:
    repository.write(".gitattributes", "* filter=evil\n")
    settings(filter__evil__clean="{program}")(repository)


def plant_included(condition: str) -> Plant:
    def plant(repository: Hostile) -> None:
        repository.write(".git/others", f'[filter "evil"]\n\tclean = {repository.program}\n')
        repository.configure(f"{condition}.path", "others")
        repository.attributes("* filter=evil")

    return plant


def plant_odd_name(repository: Hostile) -> None:
    repository.write(".git/others", "")
    text = f'[filter "e=v.i l.\\"x"]\n\tclean = {repository.program}\n'
    with (repository.folder / ".git/config").open("a") as file:
        file.write(text)
    # No attribute can name it: another filter of this name replaces the text after an equals sign.
    settings(attributes="* filter=a=b", **{"filter__a=b__clean": "{program}"})(repository)


def plant_worktree_config(repository: Hostile) -> None:
    repository.configure("extensions.worktreeConfig", "true")
    repository.git("config", "--worktree", "core.fsmonitor", repository.program)


def plant_signed_commit(repository: Hostile) -> None:
    """Commit with a signature that git asks its program about."""
    text = repository.git("cat-file", "commit", "HEAD")
    head, _, message = text.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----"
    commit = repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{head}\n{signature}\n\n{message}").strip()
    repository.git("update-ref", "HEAD", commit)
    repository.configure("gpg.program", repository.program)


def plant_shown_signatures(repository: Hostile) -> None:
    plant_signed_commit(repository)
    repository.configure("log.showSignature", "true")


def plant_signature_in_format(repository: Hostile) -> None:
    plant_signed_commit(repository)
    repository.configure("format.pretty", "%G? %s")


def submodule(repository: Hostile) -> GitRepository:
    """Add a submodule, commit it, and change it."""
    inner = GitRepository.make(repository.folder / "inner")
    inner.commit("Inner", x_txt="1\n")
    url = str(inner.folder)
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "inner")
    repository.git("commit", "--quiet", "--message", "Submodule", "--", ".gitmodules", "inner")
    inner.write("x.txt", "2\n")
    return inner


def plant_submodule_monitor(repository: Hostile) -> None:
    submodule(repository).configure("core.fsmonitor", repository.program)


def plant_submodule_monitor_shown(repository: Hostile) -> None:
    plant_submodule_monitor(repository)
    repository.configure("submodule.inner.ignore", "none")
    repository.configure("diff.ignoreSubmodules", "none")
    repository.configure("status.submoduleSummary", "true")
    repository.configure("submodule.recurse", "true")


def plant_submodule_filter(repository: Hostile) -> None:
    inner = submodule(repository)
    inner.configure("filter.evil.clean", repository.program)
    inner.write(".git/info/attributes", "* filter=evil\n")


def plant_submodule_diff(repository: Hostile) -> None:
    inner = submodule(repository)
    inner.configure("diff.external", repository.program)
    inner.commit("More", x_txt="3\n")
    inner.configure("core.fsmonitor", repository.program)
    repository.configure("diff.submodule", "diff")


def plant_submodule_update(repository: Hostile) -> None:
    submodule(repository).commit("More", x_txt="3\n")
    repository.configure("submodule.inner.update", f"!{repository.silent}")
    repository.configure("submodule.recurse", "true")


def lose_blob(repository: Hostile) -> None:
    """Remove the committed content of a.txt, so that git fetches it from a remote."""
    blob = repository.git("rev-parse", "HEAD:a.txt").strip()
    (repository.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    repository.configure("remote.origin.promisor", "true")
    repository.configure("extensions.partialClone", "origin")
    repository.configure("core.repositoryFormatVersion", "1")


def plant_lazy_fetch(url: str, **values: str) -> Plant:
    def plant(repository: Hostile) -> None:
        lose_blob(repository)
        settings(remote__origin__url=url.replace("{folder}", str(repository.folder)), **values)(repository)

    return plant


def plant_alternates(repository: Hostile) -> None:
    other = GitRepository.make(repository.folder.with_suffix(".other"))
    other.commit("Other")
    other.copy(repository.folder.with_suffix(".more")).commit("More")
    repository.write(".git/objects/info/alternates", f"{other.folder}/.git/objects\n")
    repository.configure("core.alternateRefsCommand", repository.silent)


def plant_garbage(repository: Hostile) -> None:
    repository.hook("pre-auto-gc")
    repository.configure("gc.auto", "1")
    for number in range(20):  # those in one folder are counted
        repository.git("hash-object", "-w", "--stdin", stdin=f"{number}")
    folder = repository.folder / ".git/objects/17"
    folder.mkdir(exist_ok=True)
    for number in range(3):
        (folder / f"{number:038x}").write_text("")


def plant_bare_repository(repository: Hostile) -> None:
    """Make the folder itself the data of a repository, inside of another."""
    for path in (repository.folder / ".git").iterdir():
        path.rename(repository.folder / path.name)
    (repository.folder / ".git").rmdir()
    repository.write("evil", f"#!/bin/sh\ntouch '{repository.marker}'\n").chmod(0o755)
    for name, value in {"core.bare": "false", "core.worktree": ".", "core.fsmonitor": str(repository.folder / "evil")}.items():
        repository.git("config", "--file", "config", name, value)
    GitRepository.make(repository.folder.parent)


def plant_merge_driver(repository: Hostile) -> None:
    settings("a.txt merge=evil", merge__evil__driver="{silent}")(repository)
    repository.git("stash", "--quiet")
    repository.git("switch", "--quiet", "-c", "third", "HEAD~1")
    repository.commit("Third", a_txt="third\n")
    repository.git("switch", "--quiet", "main")
    repository.git("stash", "pop", "--quiet")


class Case(NamedTuple):
    """A program of the repository, and how plain git runs it."""

    plant: Plant
    plain: Plain
    refused: tuple[str, ...] = ()
    """Tools that refuse because they need the program."""


COMMIT = plain("commit", "--all", "--message", "x")
STATUS, DIFF, LOG, ADD = plain("status"), plain("diff"), plain("log"), plain("add", ".")
SWITCH = plain("switch", "--discard-changes", "other")
FETCHED = ("git_diff",)
FILTERED = ("git_add", "git_branch")
ASKED = {"stdin": "url=https://x.invalid\n\n"}

CASES = {
    "hook pre-commit": Case(hook("pre-commit"), COMMIT),
    "hook prepare-commit-msg": Case(hook("prepare-commit-msg"), COMMIT),
    "hook commit-msg": Case(hook("commit-msg"), COMMIT),
    "hook post-commit": Case(hook("post-commit"), COMMIT),
    "hook reference-transaction": Case(hook("reference-transaction"), plain("branch", "x")),
    "hook post-index-change": Case(hook("post-index-change"), ADD),
    "hook post-checkout": Case(hook("post-checkout"), SWITCH),
    "core.hooksPath": Case(plant_hooks_elsewhere, COMMIT),
    "hook of a collection of garbage": Case(plant_garbage, COMMIT),
    "core.fsmonitor": Case(settings(core__fsmonitor="{program}"), STATUS),
    "core.fsmonitor of a work tree": Case(plant_worktree_config, STATUS),
    "core.pager": Case(settings(core__pager="{program}"), lambda repository: repository.on_terminal("log")),
    "pager of a command": Case(settings(pager__branch="{program}"), lambda repository: repository.on_terminal("branch")),
    "core.editor": Case(settings(core__editor="{silent}"), plain("commit", "--all")),
    "sequence.editor": Case(settings(sequence__editor="{silent}"), plain("rebase", "--autostash", "-i", "HEAD~1")),
    "diff.external": Case(settings(diff__external="{program}"), DIFF),
    "diff driver": Case(settings("* diff=evil", diff__evil__command="{program}"), DIFF),
    "textconv": Case(settings("* diff=evil", diff__evil__textconv="{program}"), DIFF),
    "textconv in a log": Case(settings("* diff=evil", diff__evil__textconv="{program}"), plain("log", "--patch")),
    "filter clean": Case(settings("a.txt filter=evil", filter__evil__clean="{program}"), DIFF, FILTERED),
    "filter smudge": Case(settings("a.txt filter=evil", filter__evil__smudge="{program}"), SWITCH, FILTERED),
    "filter process": Case(settings("a.txt filter=evil", filter__evil__process="{silent}"), DIFF, FILTERED),
    "filter of all files": Case(plant_tracked_attributes, STATUS, FILTERED),
    "filter by core.attributesFile": Case(plant_attributes_file, STATUS, FILTERED),
    "filter with an odd name": Case(plant_odd_name, STATUS, FILTERED),
    "filter by include": Case(plant_included("include"), STATUS, FILTERED),
    "filter by includeIf gitdir": Case(plant_included("includeIf.gitdir:**/.git"), STATUS, FILTERED),
    "filter by includeIf onbranch": Case(plant_included("includeIf.onbranch:main"), STATUS, FILTERED),
    "filter by includeIf of another branch": Case(
        plant_included("includeIf.onbranch:other"),
        lambda repository: (repository.git("symbolic-ref", "HEAD", "refs/heads/other"), repository.git("status")),
        FILTERED,
    ),
    "merge driver": Case(
        plant_merge_driver, lambda repository: (COMMIT(repository), repository.git("merge", "third", is_checked=False))
    ),
    "gpg.program": Case(settings(commit__gpgSign="true", gpg__program="{program}"), COMMIT),
    "gpg.openpgp.program": Case(settings(commit__gpgSign="true", gpg__openpgp__program="{program}"), COMMIT),
    "gpg.x509.program": Case(settings(commit__gpgSign="true", gpg__format="x509", gpg__x509__program="{program}"), COMMIT),
    "gpg.ssh.program": Case(
        settings(commit__gpgSign="true", gpg__format="ssh", gpg__ssh__program="{program}", user__signingKey="/dev/null"), COMMIT
    ),
    "gpg.ssh.defaultKeyCommand": Case(
        settings(commit__gpgSign="true", gpg__format="ssh", gpg__ssh__defaultKeyCommand="{program}"), COMMIT
    ),
    "log.showSignature": Case(plant_shown_signatures, LOG),
    "signatures by format.pretty": Case(plant_signature_in_format, LOG),
    "fsmonitor of a submodule": Case(plant_submodule_monitor, STATUS),
    "fsmonitor of a submodule that is to be shown": Case(plant_submodule_monitor_shown, DIFF),
    "filter of a submodule": Case(plant_submodule_filter, STATUS),
    "diff of a submodule": Case(plant_submodule_diff, DIFF),
    "update of a submodule": Case(plant_submodule_update, plain("submodule", "update")),
    "core.sshCommand": Case(settings(core__sshCommand="{silent}"), plain("ls-remote", "ssh://x.invalid/y")),
    "core.gitProxy": Case(settings(core__gitProxy="{program}"), plain("ls-remote", "git://x.invalid/y")),
    "core.askPass": Case(settings(core__askPass="{program}"), plain("credential", "fill", **ASKED)),
    "credential.helper": Case(settings(credential__helper="!{silent}"), plain("credential", "fill", **ASKED)),
    "core.alternateRefsCommand": Case(
        plant_alternates, lambda repository: repository.git("fetch", f"{repository.folder.with_suffix('.more')}")
    ),
    "interactive.diffFilter": Case(
        settings(interactive__diffFilter="{program}"), lambda repository: repository.on_terminal("add", "-p")
    ),
    "repository in a folder of another": Case(plant_bare_repository, STATUS, tuple(name for name, _ in SIX)),
    "trailer": Case(settings(trailer__x__command="{silent}"), plain("commit", "--all", "--message=x", "--trailer=x=y")),
    "alias": Case(settings(alias__st="!{silent}", alias__status="!{silent}"), plain("st")),
    "remote.uploadpack by a missing object": Case(
        plant_lazy_fetch("{folder}", remote__origin__uploadpack="{silent}"), DIFF, FETCHED
    ),
    "core.sshCommand by a missing object": Case(
        plant_lazy_fetch("ssh://x.invalid/y", core__sshCommand="{silent}"), DIFF, FETCHED
    ),
    "ext by a missing object": Case(
        plant_lazy_fetch("ext::touch {folder}.marker", protocol__ext__allow="always"), DIFF, FETCHED
    ),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """A repository with a branch ``other`` and an unstaged change of a.txt."""
    repository = GitRepository.make(tmp_path_factory.mktemp("template") / "t")
    repository.commit("First", a_txt="1\n", b_txt="1\n")
    repository.git("switch", "--quiet", "-c", "other")
    repository.commit("Other", a_txt="other\n")
    repository.git("switch", "--quiet", "main")
    repository.commit("Second", b_txt="2\n")
    repository.write("a.txt", "changed\n")
    repository.write("c.txt", "new\n")
    repository.git("add", "c.txt")
    return repository


def plant(template: GitRepository, folder: Path, case: Case) -> Hostile:
    """Make a repository with the program of a case."""
    repository = Hostile(template.copy(folder).folder)
    case.plant(repository)
    repository.marker.unlink(missing_ok=True)
    return repository


def runs_by_plain_git(repository: Hostile, case: Case) -> bool:
    """Return whether the program runs when plain git is used."""
    case.plain(repository)
    return repository.marker.exists()


def work_with_tools(repository: Hostile) -> tuple[bool, dict[str, str]]:
    """Return whether the program runs when all tools are used, and the refusals."""
    outcomes = [(tool, repository.call(tool, **arguments)) for tool, arguments in SIX]
    return repository.marker.exists(), {tool: outcome.text for tool, outcome in outcomes if not outcome.ok}


@pytest.mark.slow("works twice on each of eight repositories, at night of fifty, by some forty git processes")
def test_hostile_repository_cannot_run_programs(template: GitRepository, tmp_path: Path, subtests: pytest.Subtests) -> None:
    # Planted before any thread starts: a program that is open for writing in another process does not run.
    planted = [
        (name, case, *(plant(template, tmp_path / str(number) / kind, case) for kind in ("plain", "tools")))
        for number, (name, case) in enumerate([*CASES.items()][:: -size(7, nightly=1)])
    ]
    with ThreadPoolExecutor(4) as pool:
        works = [
            (name, case, pool.submit(runs_by_plain_git, for_git, case), pool.submit(work_with_tools, for_tools))
            for name, case, for_git, for_tools in planted
        ]
    for name, case, by_plain_git, by_tools in works:
        with subtests.test(name):
            assert by_plain_git.result(), "otherwise the case shows nothing"
            is_run, refused = by_tools.result()
            assert not is_run
            assert set(refused) == set(case.refused), refused
