"""The command `annulus`: each program by name, imported only when it is asked for."""

import gc
import os
import subprocess
import sys
import tomllib
from importlib import import_module

import pytest
import warm
from by_path import ROOT
from without import run_without

import annulus
from annulus.__main__ import COMMANDS, main
from annulus.late import uncollected

PRINTING = """
import sys, types
import annulus.__main__ as command
sys.modules["printing"] = types.SimpleNamespace(main=lambda words: print(words))
command.COMMANDS["print"] = ("printing", "")
command.main(["print", "words"])
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_help_lists_each_command_with_one_line_and_imports_none(tmp_path):
    assert list(COMMANDS) == [
        "look",
        "report",
        "compare",
        "sweep",
        "presets",
        "preset",
        "export",
        "picture",
        "runs",
        "curve",
        "check-gpu",
        "restore",
    ]
    done = run_without(["torch", "numpy", "pydantic"], ["-m", "annulus", "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    for name, (_, line) in COMMANDS.items():
        assert [name, line] in lines
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_hands_its_arguments_to_its_program(name, monkeypatch, capsys):
    module, _ = COMMANDS[name]
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: annulus {name} [-h]")
    given = []
    monkeypatch.setattr(import_module(module), "main", given.append)
    main([name, "stages/algorithms", "--workers", "2", "--version"])
    assert given == [["stages/algorithms", "--workers", "2", "--version"]]


def test_a_near_miss_none_and_the_version(capsys):
    with pytest.raises(
        SystemExit, match=r"^ERROR: annulus has no command 'reprot'; did you mean 'report'\? \(commands: look, "
    ):
        main(["reprot"])
    with pytest.raises(SystemExit, match=r"^ERROR: annulus has no command '42' \(commands: look, report, compare, "):
        main(["42"])
    for words, status, said in (
        ([], 2, "annulus: error: name a command: look,"),
        (["--version"], 0, annulus.__version__),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == status
        assert said in "".join(capsys.readouterr())


def test_a_program_s_mistake_and_a_reader_who_leaves_are_no_traceback(tmp_path):
    command = [warm.folder() / "python", "-m", "annulus", "export", "no.safetensors", "--to", "timm"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("ERROR: no.safetensors or its JSON is missing")
    reading, writing = os.pipe()
    os.close(reading)  # as `| head` that has read enough
    done = subprocess.run([sys.executable, "-c", PRINTING], env=ENVIRONMENT, stdout=writing, stderr=-1, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_ends_a_program_without_a_traceback(monkeypatch):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("annulus.look"), "main", interrupted)
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
