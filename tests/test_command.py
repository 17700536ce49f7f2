"""The command `annulus`: each program by name, imported only when it runs."""

import gc
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import warm
from by_path import ROOT
from without import run_without

import annulus
from annulus.__main__ import main
from annulus.commands import LABORATORY, commands
from annulus.running.imports import uncollected
from annulus_lab.commands import COMMANDS

PRINTING = """
import sys, types
import annulus.__main__ as command
from annulus.commands import COMMANDS
sys.modules["printing"] = types.SimpleNamespace(main=lambda words: print(words))
COMMANDS["print"] = ("printing", "")
command.main(["print", "words"])
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_help_lists_each_command_with_one_line_and_imports_none(tmp_path):
    assert list(commands()) == ["look", "export", "check-gpu", "completion", *LABORATORY]
    assert {*commands()} == {*COMMANDS, "check-gpu", "completion"}
    done = run_without(["torch", "numpy", "pydantic"], ["-m", "annulus", "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    for name, (_, line) in commands().items():
        assert [name, line] in lines
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name", commands())
def test_a_command_hands_its_arguments_to_its_program(name, monkeypatch, capsys):
    module, _ = commands()[name]
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: annulus {name} [-h]")
    arguments = []
    monkeypatch.setattr(import_module(module), "main", arguments.append)
    main([name, "stages/algorithms", "--workers", "2", "--version"])
    assert arguments == [["stages/algorithms", "--workers", "2", "--version"]]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["res"], {"restore"}),
        (["export", "--t"], {"--to", "--trust"}),
        (["export", "--to", "o"], {"onnx"}),
        (["sweep", "--executor", ""], {"local", "slurm"}),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes_commands_options_and_choices(words, completed, script, tmp_path):
    complete = f"COMP_WORDS=(annulus {' '.join(repr(word) for word in words)}); COMP_CWORD={len(words)}; COMPREPLY=()"
    (tmp_path / "try").write_text(f"{script}\n{complete}\n_shtab_annulus\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n")
    done = subprocess.run(["bash", str(tmp_path / "try")], capture_output=True, text=True)
    assert set(done.stdout.split()) == completed, done.stderr


@pytest.fixture(scope="module")
def script():
    """The script of `annulus completion bash`."""
    pytest.importorskip("shtab", reason="shtab is not installed")
    done = subprocess.run(
        [warm.folder() / "python", "-m", "annulus", "completion", "bash"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_near_miss_none_and_the_version(capsys):
    with pytest.raises(
        SystemExit, match=r"^ERROR: annulus has no command 'reprot'; did you mean 'report'\? \(commands: look, export, "
    ):
        main(["reprot"])
    with pytest.raises(SystemExit, match=r"^ERROR: annulus has no command '42' \(commands: look, export, check-gpu, "):
        main(["42"])
    for words, status, text in (
        ([], 2, "annulus: error: name a command: look,"),
        (["--version"], 0, annulus.__version__),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == status
        assert text in "".join(capsys.readouterr())


def test_the_library_alone_says_where_the_laboratory_s_commands_are(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/annulus").symlink_to(ROOT / "src/annulus")
    (tmp_path / "pyproject.toml").symlink_to(
        ROOT / "pyproject.toml"
    )  # for the version, which an installed distribution has
    run = [sys.executable, "-S", "-m", "annulus"]  # without site-packages, which name this checkout
    alone = {
        "env": {**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        "cwd": tmp_path,
        "capture_output": True,
        "text": True,
    }
    done = subprocess.run([*run, "compare", "main"], **alone)
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR: annulus compare belongs to the laboratory, and this Python (")
    assert done.stderr.endswith("has the library alone; clone annulus, then run `make install` there\n")
    help_text = subprocess.run([*run, "--help"], **alone).stdout
    assert "  check-gpu  " in help_text
    assert "  compare  " not in help_text


def test_a_program_s_mistake_and_a_reader_who_leaves_are_no_traceback(tmp_path):
    command = [warm.folder() / "python", "-m", "annulus", "export", "no.safetensors", "--to", "timm"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("ERROR: no.safetensors or its JSON is missing")
    reading, writing = os.pipe()
    os.close(reading)  # like `| head` after its last line
    done = subprocess.run([sys.executable, "-c", PRINTING], env=ENVIRONMENT, stdout=writing, stderr=-1, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
def test_an_output_to_a_full_device_is_one_sentence():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([sys.executable, "-c", PRINTING], env=ENVIRONMENT, stdout=full, stderr=-1, text=True)
    sentence = "ERROR: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_a_path_that_cannot_be_is_one_sentence(monkeypatch):
    monkeypatch.setattr(import_module("annulus_lab.look"), "main", lambda words: Path("n" * 5000).stat())
    with pytest.raises(SystemExit, match=r"^ERROR: 'n{33,40}\.\.\.n{33,40}': File name too long$"):
        main(["look", "PATH"])


def test_a_working_folder_that_was_deleted_is_one_sentence(tmp_path):
    (tmp_path / "gone").mkdir()
    code = f"import os; os.rmdir('../gone'); {PRINTING}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, cwd=tmp_path / "gone", capture_output=True, text=True
    )
    sentence = "ERROR: the working folder was deleted; change to another folder, then run again\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_ctrl_c_ends_a_program_without_a_traceback(monkeypatch):
    def interrupt(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("annulus_lab.look"), "main", interrupt)
    with pytest.raises(SystemExit) as ended:
        main(["look", "PATH"])
    assert (ended.value.code, ended.value.__suppress_context__) == (130, True)


def test_an_installation_and_make_install_bring_the_command(tmp_path):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"annulus": f"{main.__module__}:{main.__qualname__}"}
    (recipe,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if "> .venv/bin/annulus" in line]
    folder = tmp_path / "a folder/.venv/bin"
    folder.mkdir(parents=True)
    script = recipe.strip("\t@").replace("$$", "$")
    subprocess.run(["sh", "-c", script], cwd=tmp_path / "a folder", check=True)
    (folder / "python").write_text('#!/bin/sh\nprintf "%s." "$@"\n')
    (folder / "python").chmod(0o755)
    done = subprocess.run([folder / "annulus", "report", "--root", "a b"], capture_output=True, text=True)
    assert done.stdout == "-m.annulus.report.--root.a b."


def test_while_torch_is_imported_nothing_is_searched_for_garbage_and_afterwards_again():
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    with pytest.raises(ImportError), uncollected():
        raise ImportError
    assert gc.isenabled()
