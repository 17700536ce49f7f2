"""Differences between dvc.lock and the present parameters, code and outputs: two stages and a folder of code."""

import hashlib
import json

import pytest
import yaml

from annulus.errors import InputError
from annulus_lab.pipeline.revision import RevisionFiles, workspace
from annulus_lab.pipeline.stale import flat, is_locked, is_other, read_yaml, stale

CODE = {"src/a/b.py": b"b", "src/a/c/d.py": b"d"}
PARAMS = {"dataset": "shapes", "datasets": {"shapes": {"size": 20, "decay": 1e-05}, "cifar": {"size": 32}}}
PIPELINE = {
    "prepare": {"params": ["dataset", "datasets.${dataset}"], "outs": ["data/images"]},
    "pretrain": {
        "deps": ["data/images", "src/a"],
        "metrics": [{"metrics/main/knn.json": {"cache": False}}, "kept.csv"],
    },
}


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def folder() -> str:
    """Digest of a folder by DVC's own documents: MD5 of the JSON list of its files, sorted by path."""
    entries = [{"md5": md5(CODE[name]), "relpath": name.removeprefix("src/a/")} for name in sorted(CODE)]
    return md5(json.dumps(entries, sort_keys=True).encode()) + ".dir"


def lock() -> dict:
    images = {"path": "data/images", "md5": "1.dir"}
    values = {"dataset": "shapes", "datasets.shapes": PARAMS["datasets"]["shapes"]}
    made = [{"path": "metrics/main/knn.json", "md5": md5(b"{}")}, {"path": "kept.csv", "md5": "of the cache"}]
    return {
        "prepare": {"params": {"params.yaml": values}, "outs": [images]},
        "pretrain": {"deps": [dict(images), {"path": "src/a", "md5": folder()}], "outs": made},
    }


def clauses(locked: dict, params: dict = PARAMS, **content: bytes) -> list[str]:
    files = {
        name: yaml.safe_dump(tree).encode()
        for name, tree in (("params.yaml", params), ("dvc.yaml", {"stages": PIPELINE}))
    }
    # DVC writes 1e-05, which YAML 1.1 takes for text.
    files["dvc.lock"] = yaml.safe_dump({"stages": locked}).replace("1.0e-05", "1e-05").encode()
    files |= CODE | {"metrics/main/knn.json": b"{}"} | content
    return stale(
        RevisionFiles("HEAD", files.__getitem__, lambda path: [name for name in files if name.startswith(f"{path}/")])
    )


def test_metrics_of_their_own_parameters_and_code_are_not_stale():
    assert clauses(lock()) == []
    unread = PARAMS["datasets"] | {"cifar": {"size": 64}}
    assert clauses(lock(), PARAMS | {"datasets": unread}) == [], "a section that is not chosen"


def test_a_selector_is_named_in_place_of_its_section():
    assert clauses(lock(), PARAMS | {"dataset": "cifar"}) == ["metrics were made with dataset: shapes"]
    other = {"shapes": {"size": 24, "decay": 1e-05}}
    assert clauses(lock(), PARAMS | {"datasets": other}) == ["metrics were made with datasets.shapes.size: 20"]


def test_four_differences_are_named_and_more_are_counted():
    for count, more in ((4, ""), (5, " and 1 more")):
        locked = lock()
        old = PARAMS["datasets"]["shapes"] | {f"old{n}": n for n in range(count)}
        locked["prepare"]["params"]["params.yaml"]["datasets.shapes"] = old
        named = ", ".join(f"datasets.shapes.old{n}: {n}" for n in range(4))
        assert clauses(locked) == [f"metrics were made with {named}{more}"]


def test_a_parameter_that_a_stage_has_got_since_is_named_unless_it_is_null(monkeypatch):
    monkeypatch.setitem(PIPELINE["prepare"], "params", [*PIPELINE["prepare"]["params"], "limit"])
    assert clauses(lock(), PARAMS | {"limit": None}) == []
    assert clauses(lock(), PARAMS | {"limit": 3}) == ["metrics were made with limit: null"]


def test_selectors_come_before_the_values_of_sections(monkeypatch):
    monkeypatch.setitem(PIPELINE["prepare"], "params", [*PIPELINE["prepare"]["params"], "views"])
    other = PARAMS | {"datasets": {"shapes": {"size": 24, "decay": 1e-05}}, "views": "gentle"}
    assert clauses(lock(), other) == ["metrics were made with views: null, datasets.shapes.size: 20"]


def test_a_tree_is_flat_under_dotted_keys_and_an_empty_section_is_a_value():
    assert flat({"a": {}, "b": {"c": {"d": [{}]}, 3: None}}) == {"a": {}, "b.c.d": [{}], "b.3": None}
    assert flat({"c": 1}, "a.b") == {"a.b.c": 1}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{", "}")], ids=["lists", "sections"])
def test_a_short_file_of_endless_values_is_refused(opening, closing):
    """With YAML anchors each line holds the line before ten times, so the sixth holds a million values."""

    def nested(lines: int) -> RevisionFiles:
        names = [f"k{n}: " if opening == "{" else "" for n in range(10)]
        text = "a0: &a0 1\n"
        for n in range(1, lines + 1):
            text += f"a{n}: &a{n} {opening}{', '.join(f'{name}*a{n - 1}' for name in names)}{closing}\n"
        return RevisionFiles("HEAD", {"dvc.lock": text.encode()}.__getitem__, lambda path: [])

    assert read_yaml(nested(4), "dvc.lock")["a0"] == 1
    with pytest.raises(InputError, match=r"^HEAD: dvc\.lock holds more than 100,000 values, as no such file does"):
        read_yaml(nested(6), "dvc.lock")


def test_code_is_hashed_as_dvc_hashes_a_folder():
    for content in ({"src/a/b.py": b"edited"}, {"src/a/new.py": b""}):
        assert clauses(lock(), **content) == ["metrics were made with other code in src/a"]


def test_an_input_that_is_one_file_is_hashed_by_its_content(monkeypatch):
    monkeypatch.setitem(PIPELINE["pretrain"], "deps", ["src/a/b.py"])
    locked = lock()
    locked["pretrain"]["deps"] = [{"path": "src/a/b.py", "md5": md5(b"b")}]
    assert clauses(locked) == []
    assert clauses(locked, **{"src/a/b.py": b"edited"}) == ["metrics were made with other code in src/a/b.py"]


def test_another_command_is_named_whatever_its_line_breaks(monkeypatch):
    monkeypatch.setitem(PIPELINE["prepare"], "cmd", "python prepare --params params.yaml\n")
    locked = lock()
    for cmd, expected in (
        ("python prepare\n --params params.yaml", []),
        ("python prepare --params other.yaml", ["metrics were made with another command of prepare"]),
    ):
        locked["prepare"]["cmd"] = cmd
        assert clauses(locked) == expected


def test_an_output_that_a_stage_has_got_since_is_named(monkeypatch):
    """`dvc repro` runs the stage again for it."""
    monkeypatch.setitem(PIPELINE["prepare"], "plots", [{"metrics/main/new.json": {"cache": False}}, "kept.svg"])
    assert clauses(lock()) == [
        "metrics were made with a prepare that wrote no metrics/main/new.json, a prepare that wrote no kept.svg"
    ]


def test_a_file_that_dvc_keeps_of_another_run_is_told_apart(tmp_path):
    (tmp_path / "map.svg").write_bytes(b"<svg/>")
    assert not is_other(tmp_path, "map.svg"), "without a lock nothing is known"
    for digest, expected in ((md5(b"<svg/>"), False), (md5(b"other"), True)):
        locked = {"stages": {"diagnostics": {"outs": [{"path": "map.svg", "md5": digest}]}}}
        (tmp_path / "dvc.lock").write_text(yaml.safe_dump(locked))
        assert is_other(tmp_path, "map.svg") is expected
    assert not is_other(tmp_path, "gone.svg")
    for damaged in ("stages: 1", "a: [", "stages: {diagnostics: {outs: [1]}}"):
        (tmp_path / "dvc.lock").write_text(damaged)
        assert not is_other(tmp_path, "map.svg")


def test_a_folder_is_that_of_the_lock_only_with_its_files_and_names_at_any_depth(tmp_path):
    for name, content in CODE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert not is_locked(tmp_path, "prepare", "src/a"), "without a lock"
    outs = [{"path": "other", "md5": "1.dir"}, {"path": "src/a", "md5": folder()}]
    lock_file = tmp_path / "dvc.lock"
    lock_file.write_text(yaml.safe_dump({"stages": {"prepare": {"outs": outs}}}))
    assert is_locked(tmp_path, "prepare", "src/a")
    assert not is_locked(tmp_path, "prepare", "src/a/c"), "no output"
    assert not is_locked(tmp_path, "pretrain", "src/a"), "another stage's"
    (tmp_path / "src/a/c/d.py").rename(tmp_path / "src/a/d.py")
    assert not is_locked(tmp_path, "prepare", "src/a")
    for damaged in (
        "stages: 1",
        "stages: {prepare: 1}",
        "stages: {prepare: {outs: [1]}}",
        "stages: {prepare: {outs: 1}}",
    ):
        lock_file.write_text(damaged)
        assert not is_locked(tmp_path, "prepare", "src/a")


def test_an_earlier_stage_that_ran_again_alone_is_seen_by_what_it_wrote():
    """Its parameters agree with dvc.lock, and so do those of the stage that read its old output."""
    locked = lock()
    locked["prepare"]["outs"][0]["md5"] = "2.dir"
    assert clauses(locked) == ["metrics were made with another data/images"]


def test_a_metrics_file_of_another_run_and_a_stage_that_never_ran_are_named(monkeypatch):
    assert clauses(lock(), **{"metrics/main/knn.json": b"[]"}) == ["metrics/main/knn.json differs from dvc.lock"]
    locked = lock()
    locked["pretrain"]["outs"].append({"path": "metrics/main/gone.json", "md5": md5(b"{}")})
    kept = PIPELINE["pretrain"]["metrics"]
    monkeypatch.setitem(PIPELINE["pretrain"], "metrics", [*kept, {"metrics/main/gone.json": {"cache": False}}])
    assert clauses(locked) == ["metrics/main/gone.json differs from dvc.lock"], "it is missing"
    monkeypatch.undo()
    locked = lock()
    del locked["pretrain"]
    assert clauses(locked) == ["dvc.lock names no run of pretrain"]


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (2, "metrics/main/0.json, metrics/main/1.json"),
        (5, "metrics/main/0.json, metrics/main/1.json, metrics/main/2.json, metrics/main/3.json and 1 more"),
    ],
)
def test_several_files_of_another_run_are_one_clause(monkeypatch, count, names):
    paths = [f"metrics/main/{n}.json" for n in range(count)]
    monkeypatch.setitem(PIPELINE["pretrain"], "metrics", [{path: {"cache": False}} for path in ("kept.csv", *paths)])
    locked = lock()
    locked["pretrain"]["outs"] += [{"path": path, "md5": md5(b"{}")} for path in paths]
    made = dict.fromkeys(paths, b"{}") | {"kept.csv": b"of the cache"}
    locked["pretrain"]["outs"][1]["md5"] = md5(made["kept.csv"])
    assert clauses(locked, **made) == []
    assert clauses(locked, **made | dict.fromkeys(paths, b"[]")) == [f"files differ from dvc.lock: {names}"]


def test_without_a_lock_nothing_is_known_and_one_of_something_else_is_refused(tmp_path):
    assert stale(workspace(tmp_path)) == ["dvc.lock is missing, so the parameters of the metrics are unknown"]
    with pytest.raises(InputError, match=r"HEAD: dvc\.yaml and dvc\.lock are not of DVC"):
        clauses({"prepare": [], "pretrain": []})
