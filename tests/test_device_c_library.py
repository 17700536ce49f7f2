"""A C file is compiled once for a processor, and each fault is one message."""

import os
import shlex
import subprocess
import sys

import pytest
import torch
from by_path import ROOT
from compilers import needs_compiler

from annulus.device import c_library
from annulus.device.c_library import library
from annulus.device.trust import trusted
from annulus.views import augment, large


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder for compiled files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for known in (library, trusted):
        known.cache_clear()
    yield tmp_path / "cache" / "annulus"
    for known in (library, trusted):
        known.cache_clear()


def write_source(tmp_path, text):
    source = tmp_path / "some.c"
    source.write_text(text)
    return source


@needs_compiler
def test_a_file_is_compiled_once_and_again_when_it_or_the_processor_or_the_command_changes(
    tmp_path, folder, monkeypatch
):
    source = write_source(tmp_path, "int number(void) { return 3; }\n")
    assert library(source).number() == 3
    [binary] = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    before = binary.stat().st_mtime_ns
    program = (
        "import pathlib, sys; from annulus.device.c_library import library;"
        "print(library(pathlib.Path(sys.argv[1])).number())"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program, source]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (other.stdout.strip(), binary.stat().st_mtime_ns) == ("3", before)
    source.write_text("int number(void) { return 4; }\n")
    library.cache_clear()
    assert library(source).number() == 4
    assert len(list(folder.iterdir())) == 2
    command, known = c_library._for_this_processor([*shlex.split(os.environ.get("CC") or "cc"), *c_library.FLAGS])
    for number, (words, macros) in enumerate([([], b"another processor"), (["-DOTHER"], b"")], 3):
        monkeypatch.setattr(c_library, "_for_this_processor", lambda _, own=([*command, *words], known + macros): own)
        library.cache_clear()
        assert library(source).number() == 4
        assert len(list(folder.iterdir())) == number


@needs_compiler
def test_a_file_that_is_no_c_is_refused_in_the_compiler_s_words_and_leaves_nothing(tmp_path, folder):
    with pytest.raises(OSError, match=r"(?s)ended with 1: .*some\.c:1:.*error"):
        library(write_source(tmp_path, "int number(void) { return three; }\n"))
    assert not list(folder.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="there the sentence is another")
@pytest.mark.parametrize("name", ["no-such-compiler", None])
def test_without_a_compiler_views_come_from_operators_after_one_sentence(name, generator, monkeypatch, caplog):
    if name is None:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setenv("PATH", "")
    else:
        monkeypatch.setenv("CC", name)
    images = torch.randint(256, (2, 3, 130, 140), generator=generator, dtype=torch.uint8)
    for _ in range(2):
        views = augment(images, "standard", 96, torch.Generator().manual_seed(1))
    assert [line.partition("(")[2] for line in caplog.messages] == [
        f"FileNotFoundError: no C compiler {name or 'cc'}: install one, or name it in CC); plain PyTorch takes longer"
    ]
    with monkeypatch.context() as patch:
        patch.setattr(large, "trusted", lambda *_: False)
        assert torch.equal(views, augment(images, "standard", 96, torch.Generator().manual_seed(1)))
