"""Files of the workspace and of git revisions: equal contents, and one sentence for an unreadable file."""

import os
import subprocess
from pathlib import Path

import pytest
from report_root import first_commit

from annulus.errors import InputError
from annulus_lab.pipeline import revision as revisions
from annulus_lab.pipeline.revision import compared_again, experiments, git, objects, revision, workspace


@pytest.fixture
def root(tmp_path):
    """A repository with files at two depths, a link, and Python's bytecode."""
    for name in ("src/a.py", "src/deep/b.py", "src/__pycache__/a.pyc.1", "src/stray.pyc", "source/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "src/link.py").symlink_to("a.py")
    first_commit(tmp_path)
    return tmp_path


def test_both_sides_list_the_files_of_a_folder_alone_at_any_depth_and_the_workspace_not_what_python_leaves(root):
    assert sorted(workspace(root).below("src")) == ["src/a.py", "src/deep/b.py", "src/link.py"]
    here = revision(root, "HEAD", ["src", "source"])
    assert {"src/a.py", "src/deep/b.py"} <= set(here.below("src"))
    assert "source/c.py" not in here.below("src")
    assert workspace(root).text("src/deep/b.py") == here.text("src/deep/b.py") == "src/deep/b.py\n"


def test_a_revision_has_the_files_of_its_paths_whatever_their_names_and_no_link(root):
    strange = "src/ä\t\"b'\n.py"
    (root / strange).write_text("strange")
    (root / "src/empty").touch()
    commit = first_commit(root)
    files = revision(root, "HEAD", ["src"])
    assert files.name == f"HEAD ({commit[:7]})"
    contents = [files.content(name) for name in (strange, "src/empty", "src/a.py")]
    assert contents == [b"strange", b"", b"src/a.py\n"]
    for missing in ("src/link.py", "source/c.py", "src", "src/other.py"):
        with pytest.raises(LookupError, match=f"no {missing}"):
            files.content(missing)


def test_objects_that_git_does_not_know_are_missing_and_so_are_folders(root):
    names = {"unknown": "HEAD:./gone", "folder": "HEAD:./src", "file": "HEAD:./src/a.py"}
    files = objects(root, names, "here")
    assert (files.text("file"), files.name) == ("src/a.py\n", "here")
    for missing in ("unknown", "folder"):
        with pytest.raises(LookupError, match=f"no {missing}"):
            files.text(missing)


def test_a_file_may_be_as_large_as_the_limit_and_no_larger(root, monkeypatch):
    monkeypatch.setattr(revisions, "MOST_BYTES", 2**20)
    (root / "large").write_bytes(bytes(2**20))
    assert len(workspace(root).content("large")) == 2**20
    (root / "large").write_bytes(bytes(2**20 + 1))
    with pytest.raises(LookupError, match="large has more than 1 MB"):
        workspace(root).content("large")


def test_a_file_that_is_missing_or_no_file_is_told_by_the_system_s_reason(root):
    for name, reason in (("gone", "No such file or directory"), ("src", "Is a directory")):
        with pytest.raises(LookupError, match=f"{name}: {reason}"):
            workspace(root).text(name)


def test_what_is_no_text_or_left_in_a_conflict_is_named_with_its_side_and_line(root):
    (root / "binary").write_bytes(b"\xff")
    with pytest.raises(InputError, match="workspace: binary is not text in UTF-8"):
        workspace(root).text("binary")
    for mark in ("<<<<<<< HEAD", ">>>>>>> other"):
        (root / "merged").write_text(f"\nb\n{mark}\n")
        with pytest.raises(InputError, match="workspace: merged has git's conflict marks in line 3; settle"):
            workspace(root).text("merged")
    (root / "merged").write_text("a <<<<<<< b\n<<<<<<<\n")
    assert workspace(root).text("merged") == "a <<<<<<< b\n<<<<<<<\n"


def test_experiments_are_listed_by_name_with_the_newest_commit_first(root):
    commits = []
    for seconds in ("1700000000", "1700000200", "1700000100"):
        made = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit-tree", "HEAD^{tree}", "-m", seconds]
        environment = os.environ | {"GIT_COMMITTER_DATE": f"{seconds} +0000"}
        commits.append(subprocess.check_output(made, cwd=root, env=environment, text=True).strip())
        name = "other" if len(commits) == 3 else "mine"
        git(root, "update-ref", f"refs/exps/ab/{len(commits):038d}/{name}", commits[-1])
    git(root, "update-ref", "refs/exps/exec/EXEC_HEAD", "HEAD")
    assert list(experiments(root).items()) == [("mine", [commits[1], commits[0]]), ("other", [commits[2]])]


def test_git_that_cannot_be_asked_is_one_sentence_with_the_folder_and_the_reason(root, monkeypatch):
    with pytest.raises(InputError, match=f"cannot ask git in {root}: exit status 1"):
        git(root, "rev-parse", "--verify", "-q", "gone")
    with pytest.raises(InputError, match=f"cannot ask git in {root}/src/a.py: .*Not a directory"):
        git(root / "src/a.py", "status")
    alias = "alias.complain=!printf 'fatal: this\\n  and \\377that' >&2; exit 3"
    monkeypatch.chdir(root)
    with pytest.raises(InputError, match=f"cannot ask git in {root}: this and \ufffdthat$"):
        git(Path(), "-c", alias, "complain")
    with pytest.raises(InputError, match=f"cannot ask git in {root}/gone: the folder is missing"):
        git(Path("gone"), "status")
    monkeypatch.setattr(revisions, "GIT_SECONDS", 0.05)
    with pytest.raises(InputError, match=f"cannot ask git in {root}: .*timed out after 0.05 seconds"):
        git(root, "-c", "alias.wait=!sleep 2", "wait")


def test_a_file_s_time_is_set_back_by_two_seconds_and_one_that_is_missing_is_left(root):
    path = root / "src/a.py"
    before = path.stat()
    compared_again(path)
    after = path.stat()
    assert before.st_mtime_ns - after.st_mtime_ns == 2_000_000_000
    assert before.st_atime_ns == after.st_atime_ns
    compared_again(root / "gone")
    assert not (root / "gone").exists()
