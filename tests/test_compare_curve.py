"""The learning curve in the terminal: means over seeds at their places, in the terminal's width."""

import pytest

from annulus.errors import InputError
from annulus_lab.compare.curve import as_text, main, value_at

LINEAR, NEAREST = "online_linear_top1_percent", "validation_nn1_percent"


def rows(**columns):
    """Two seeds, ten apart, of four epochs; the columns' values are their means."""
    return [
        {
            "seed": float(seed),
            "epoch": epoch + 1.0,
            **{name: values[epoch] + 10.0 * seed - 5 for name, values in columns.items()},
        }
        for seed in (0, 1)
        for epoch in range(4)
    ]


def test_each_line_passes_through_the_means_over_seeds_at_their_epochs():
    title, linear, nearest, *grid, axis, epochs = as_text(
        rows(**{LINEAR: [20, 40, 60, 80], NEAREST: [20, 20, 20, 50]}), 100
    ).splitlines()
    assert title == "validation accuracy in pretraining, mean of 2 seeds, after the last epoch:"
    assert [linear, nearest] == ["* linear probe 80.0 %", "o nearest neighbour 50.0 %"]
    assert [grid[0][:6], grid[-1][:6]] == ["80.0 |", "20.0 |"]
    assert len(axis) == 99
    assert (epochs.split(), len(epochs)) == (["epoch", "1", "4"], 99)
    columns = axis.count("-")
    for epoch, height, mark in [
        (1, 0, "*"),
        (2, 2, "*"),
        (3, 4, "*"),
        (4, 6, "*"),
        (2, 0, "o"),
        (3, 0, "o"),
        (4, 3, "o"),
    ]:
        assert grid[6 - height][6 + round((epoch - 1) / 3 * (columns - 1))] == mark, (epoch, height)
    assert all(sum(line[6 + column : 7 + column] == "*" for line in grid) == 1 for column in range(columns))
    points = [(1.0, 20.0), (3.0, 20.0), (4.0, 50.0), (6.0, 40.0)]
    assert [value_at(points, epoch) for epoch in (0.0, 2.0, 3.5, 5.0, 7.0)] == [20, 20, 35, 45, 40]


@pytest.mark.parametrize("width", [1, 40, 80, 300])
def test_it_is_no_wider_than_the_terminal_and_a_hundred_columns(width):
    text = as_text(rows(**{NEAREST: [3, 30, 35, 40]}), width)
    assert max(map(len, text.splitlines())) <= (max(width, 30) if width < 80 else min(width, 100))


def test_without_classes_it_is_the_bound_and_with_neither_a_sentence():
    assert as_text(rows(bound_nats=[1, 2, 3, 4]), 80).startswith("bound in pretraining, mean of 2 seeds")
    assert "* bound 4.00 nats" in as_text(rows(bound_nats=[1, 2, 3, 4]), 80)
    with pytest.raises(InputError, match="has no accuracy and no bound; run `dvc repro`"):
        as_text(rows(loss_nats=[1, 2, 3, 4]), 80)


def test_one_seed_of_one_epoch_is_a_level_line():
    lines = as_text([{"seed": 3.0, "epoch": 1.0, NEAREST: 25.0}], 80).splitlines()
    assert lines[0].startswith("validation accuracy in pretraining, one seed,")
    assert lines[8].startswith("25.0 |ooo")


def test_the_command_colours_a_terminal_alone_and_a_missing_curve_is_one_sentence(tmp_path, capsys, monkeypatch):
    with pytest.raises(InputError, match=r"^workspace has no learning curve .*run `dvc repro`"):
        main(["--root", str(tmp_path)])
    (tmp_path / "metrics/main").mkdir(parents=True)
    (tmp_path / "metrics/main/pretrain_history.csv").write_text(f"seed,epoch,{NEAREST}\n0,1,10\n0,2,20\n")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["--root", str(tmp_path)])
    plain = capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    main(["--root", str(tmp_path)])
    coloured = capsys.readouterr().out
    assert "\033" not in plain
    assert coloured.replace("\033[36m", "").replace("\033[0m", "") == plain != coloured
    monkeypatch.setenv("NO_COLOR", "1")
    main(["--root", str(tmp_path)])
    assert capsys.readouterr().out == plain
