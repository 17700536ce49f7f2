import pytest
import torch
import torch.nn.functional as F

from annulus.training import nearest
from annulus.training.nearest import nearest_label_accuracy


@pytest.mark.parametrize("at_once", [1, 300, 2**24])
def test_agrees_with_plain_loops_whatever_the_chunks(monkeypatch, at_once):
    monkeypatch.setattr(nearest, "SCORES_AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(1)
    queries, rows = (F.normalize(torch.randn(count, 5, generator=generator), dim=1) for count in (37, 83))
    query_labels, row_labels = (torch.randint(0, 3, (count,), generator=generator) for count in (37, 83))
    closest = [
        max(range(83), key=lambda row, query=query: float(query @ rows[row].double())) for query in queries.double()
    ]
    right = sum(int(row_labels[row] == label) for row, label in zip(closest, query_labels, strict=True))
    assert nearest_label_accuracy(queries, rows, query_labels, row_labels) == pytest.approx(100 * right / 37)


def test_the_first_of_equally_similar_rows_counts_and_no_queries_have_no_accuracy():
    rows, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])
    assert nearest_label_accuracy(rows[:1], rows, labels[:1], labels) == 100.0
    assert nearest_label_accuracy(rows[:1], rows, labels[1:], labels) == 0.0
    with pytest.raises(ValueError, match="got 0 and 2"):
        nearest_label_accuracy(rows[:0], rows, labels[:0], labels)
