"""Tables of several seeds: means with intervals if the seeds differ, else their common value."""

from annulus_lab.report.page.seed_tables import gains_table, pairs_table, seed_table


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_a_number_that_differs_has_its_mean_and_interval_and_each_seed_s_value():
    differing, equal, names = texts(
        seed_table("", {"50": {"a": 1.0, "b": 2, "c": "x"}, "51": {"a": 3.0, "b": 2, "c": "y"}})
    )
    assert differing == ["a", "2", "13", "", "1", "3"]  # Student's t of one degree of freedom is 12.7
    assert equal == ["b", "2", "", "", "2", "2"]
    assert names == ["c", "x, y", "", "", "x", "y"]


def test_one_seed_has_no_interval_and_no_columns_of_seeds():
    assert texts(seed_table("", {"50": {"a": 1.5}})) == [["a", "1.500", "", ""]]


def test_pairs_say_which_stand_when_all_are_read_together():
    rows = [
        {"row": f"r{place}", "base": "b", "gain_percent": gain, "gain_interval_percent": 1.0, "seeds": 5}
        | {"verdict": "better" if gain > 1 else "within noise"}
        for place, gain in enumerate((3.0, 1.1, 0.2))
    ]
    assert [row[-1] for row in texts(pairs_table(rows))] == ["yes", "", ""], "1.1 is better alone, and not of three"


def test_a_run_under_a_second_name_says_so():
    row = {
        "table": "t",
        "here_gain_percent": 1.0,
        "here_gain_interval_percent": 0.5,
        "here_percent": 40.0,
        "paper_gain_percent": "",
    }
    rows = [row | {"method": name, "verdict": "better"} for name in ("LA-nce", "LA")]
    lines = texts(gains_table("", rows, {("t", "LA-nce"): "neighbours"}))
    assert [line[:2] for line in lines] == [["LA-nce", "neighbours"], ["LA", "the same run as LA-nce"]]
