import pytest
import torch
import torch.nn.functional as F

from annulus.training import nearest
from annulus.training.nearest import nearest_label_accuracy


@pytest.mark.parametrize("at_once", [1, 300, 2**24])
def test_agrees_with_plain_loops_whatever_the_chunks(monkeypatch, at_once):
    monkeypatch.setattr(nearest, "SCORES_AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(1)
    queries = F.normalize(torch.randn(37, 5, generator=generator), dim=1)
    rows = F.normalize(torch.randn(83, 5, generator=generator), dim=1)
    labels_of_queries = torch.randint(0, 3, (37,), generator=generator)
    labels_of_rows = torch.randint(0, 3, (83,), generator=generator)
    right = 0
    for query, label in zip(queries.double(), labels_of_queries, strict=True):
        closest = max(range(83), key=lambda row: (query @ rows[row].double()).item())
        right += int(labels_of_rows[closest] == label)
    found = nearest_label_accuracy(queries, rows, labels_of_queries, labels_of_rows)
    assert found == pytest.approx(100 * right / 37)


def test_the_first_of_equally_similar_rows_counts():
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert nearest_label_accuracy(rows[:1], rows, torch.tensor([0]), torch.tensor([0, 1])) == 100.0
    assert nearest_label_accuracy(rows[:1], rows, torch.tensor([1]), torch.tensor([0, 1])) == 0.0


def test_no_queries_have_no_accuracy():
    none, labels = torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)
    with pytest.raises(ValueError, match="got 0 and 1"):
        nearest_label_accuracy(none, torch.ones(1, 2), labels, torch.zeros(1, dtype=torch.long))
