"""Reads files of the workspace, of a git revision or of a DVC experiment, without a checkout."""

import io
import os
import re
import subprocess
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from annulus.errors import InputError
from annulus.files.regular import check_regular

WORKSPACE = "workspace"
GIT_SECONDS = 60
MOST_BYTES = 64 * 2**20  # of one file; the largest that is read here has 0.1 MB
EXPERIMENT = re.compile(r"refs/exps/[0-9a-f]{2}/[0-9a-f]{38}/([^/]+)")  # DVC keeps other refs beside them
# Files in git that a run writes. Other files are the user's own and stay as they are.
RUN_OUTPUTS = re.compile(
    r"(stages/\w+/)?(params\.yaml|dvc\.lock)|stages/\w+/metrics/.*|metrics/(main/.*|summary\.(json|csv))"
)
CONFLICT = re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)


class RevisionFiles(NamedTuple):
    """Files of a revision or of the working tree; paths are relative to the repository's root.

    `content` raises LookupError if a path is missing or not a file. `below` lists the files in a folder, at any depth.
    """

    name: str
    content: Callable[[str], bytes]
    below: Callable[[str], list[str]]

    def text(self, path: str) -> str:
        """Text of a file.

        Raises:
            LookupError: when it is missing, too large, or not a plain file.
            InputError: when it is not UTF-8, or git left it in a conflict.
        """
        try:
            text = self.content(path).decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name}: {path} is not text in UTF-8") from error
        return settled(text, f"{self.name}: {path}")


def settled(text: str, name: str) -> str:
    """Checks a file's text for git's conflict marks, and returns it; messages call the file `name`.

    Raises:
        InputError: when the text has such a mark.
    """
    if mark := CONFLICT.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        raise InputError(
            f"{name} has git's conflict marks in line {line}; settle the merge first "
            "(dvc.lock and metrics/: see Comparing in stages/README.md)"
        )
    return text


def workspace(root: Path) -> RevisionFiles:
    """Files of the working tree."""

    def content(path: str) -> bytes:
        try:
            check_regular(root / path)
            with (root / path).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise LookupError(f"{path}: {error.strerror}") from error
        if len(data) > MOST_BYTES:
            raise LookupError(f"{path} has more than {MOST_BYTES >> 20} MB, which no file of this repository has")
        return data

    def below(folder: str) -> list[str]:
        paths = (path for path in (root / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
        return [path.relative_to(root).as_posix() for path in paths if "__pycache__" not in path.parts]

    return RevisionFiles(WORKSPACE, content, below)


def revision(root: Path, name: str, paths: Collection[str]) -> RevisionFiles:
    """Files under some paths of a git revision, or of the DVC experiment of this name.

    Raises:
        InputError: when neither exists, or when git fails, with git's own reason.
    """
    commit, blobs = _commit(root, name), {}
    for line in git(root, "ls-tree", "-r", "-z", commit, "--", *paths).decode().split("\0")[:-1]:
        kind, path = line.split("\t", 1)
        if kind.startswith("100"):  # a plain file, no link
            blobs[path] = kind.split()[2]
    return objects(root, blobs, f"{name} ({commit[:7]})")


def objects(root: Path, blobs: Mapping[str, str], name: str) -> RevisionFiles:
    """Reads files by git's names of their content, such as HEAD:./dvc.lock, in one call; leaves out unknown names.

    Raises:
        InputError: when git fails, with git's own reason.
    """
    blob_names = "".join(f"{blob}\n" for blob in blobs.values())
    stream, files = io.BytesIO(git(root, "cat-file", "--batch", stdin=blob_names.encode())), {}
    for path in blobs:
        *_, kind, size = stream.readline().split()
        if size.isdigit():  # or: missing
            content = stream.read(int(size) + 1)[:-1]
            if kind == b"blob":
                files[path] = content

    def content(path: str) -> bytes:
        if path not in files:
            raise LookupError(f"no {path}")
        return files[path]

    def below(folder: str) -> list[str]:
        return [path for path in files if path.startswith(f"{folder}/")]

    return RevisionFiles(name, content, below)


def experiments(root: Path) -> dict[str, list[str]]:
    """Commits of each DVC experiment of the checkout, by its name; the newest first.

    Raises:
        InputError: when git fails, with git's own reason.
    """
    commits: dict[str, list[str]] = {}
    references = git(root, "for-each-ref", "--sort=-committerdate", "--format=%(objectname) %(refname)", "refs/exps")
    for line in references.decode().splitlines():
        commit, reference = line.split(" ", 1)
        if name := EXPERIMENT.fullmatch(reference):
            commits.setdefault(name[1], []).append(commit)
    return commits


def git(root: Path, *words: str, stdin: bytes = b"") -> bytes:
    """Output of git for the input `stdin`.

    Raises:
        InputError: when git is missing or fails, with git's own reason.
    """
    try:
        process = subprocess.run(["git", *words], cwd=root, input=stdin, capture_output=True, timeout=GIT_SECONDS)
    except FileNotFoundError as error:
        missing = "the folder is missing" if not root.is_dir() else "git is not installed"
        raise InputError(f"cannot ask git in {root.resolve()}: {missing}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"cannot ask git in {root.resolve()}: {error}") from error
    if process.returncode:
        reason = " ".join(process.stderr.decode(errors="replace").split()).removeprefix("fatal: ")[:400]
        if reason.startswith("not a git repository"):
            reason = "it is not a git repository; clone it to compare revisions (an unpacked archive has no git)"
        raise InputError(f"cannot ask git in {root.resolve()}: {reason or f'exit status {process.returncode}'}")
    return process.stdout


def compared_again(path: Path) -> None:
    """Sets the time of a writable file two seconds back, so that git compares its content.

    `dvc exp run` writes params.yaml and metrics in the second in which git writes its index. Git ignores parts of a
    second, so a file of the same size, as after `-S sampler=cave` in place of ring, counts as unchanged.
    """
    with suppress(OSError):
        times = path.stat()
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns - 2 * 10**9))


def _commit(root: Path, name: str) -> str:
    """Commit of a revision, or of the experiment of this name."""
    shallow = git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"  # raises if git does not work here
    try:
        return git(root, "rev-parse", "--verify", "-q", f"{name}^{{commit}}").decode().strip()
    except InputError:
        known = experiments(root)
    commits = known.get(name, [])
    if len(commits) == 1:
        return commits[0]
    hint = " of this shallow clone (`git fetch --unshallow` brings the rest)" if shallow else ""
    raise InputError(
        f"{name!r} is not a git revision{hint}, and {'several' if commits else 'no'} DVC experiments have this name; "
        f"give a revision, {WORKSPACE}, or one of the experiments here: {', '.join(sorted(known)) or 'there are none'}"
    )
