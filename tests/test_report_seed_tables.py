"""Tables of several seeds: means with intervals where the seeds differ, their common value where they agree."""

from annulus_lab.report.page.seed_tables import seed_table


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
