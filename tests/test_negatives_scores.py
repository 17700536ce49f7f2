"""Values and gradients of selected scores against autograd over the whole table."""

import pytest
import torch

from annulus.methods.critics import build_critic
from annulus.negatives import scores as module
from annulus.negatives.scores import Products, StoredScores

QUERIES, ROWS, DIM = 5, 30, 4
OWN = torch.tensor([[3, -1], [0, 29], [-1, -1], [0, -1], [7, 7]])
KINDS = ["given", "products", "few of many", "fewer of many", "products in a fixed order", "pairs"]


@pytest.fixture(params=KINDS)
def both(request, generator, monkeypatch):
    """Queries, their scores, and the whole table with autograd."""
    if request.param in ("few of many", "fewer of many"):
        monkeypatch.setattr(module, "LARGE_ON_CPU", 1)
        monkeypatch.setattr(module, "ADDED" if request.param == "few of many" else "MULTIPLIED", 1.0)
    if request.param == "products in a fixed order":
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    queries, rows = torch.randn(QUERIES + ROWS, DIM, generator=generator, dtype=torch.float64).split([QUERIES, ROWS])
    queries.requires_grad_()
    critic = build_critic("mlp-2", DIM, 1.0, seed=0).double()
    if request.param == "pairs":
        table = critic.rest(critic.of_query(queries)[:, None] + critic.of_row(rows)).squeeze(2)
        return queries, critic(queries, rows), table
    made = queries @ rows.T
    return queries, StoredScores(made) if request.param == "given" else Products(queries, rows), made


def assert_same(queries, actual, expected, generator):
    """Compares values and the gradients of a weighted sum of scores, in which -inf has weight 0."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn(expected.shape, generator=generator, dtype=torch.float64).where(expected > -torch.inf, 0.0)
    ours, theirs = (
        torch.autograd.grad((weights * each.clamp(min=-1e9)).sum(), queries, retain_graph=True)[0]
        for each in (actual, expected)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert theirs.abs().sum() > 1


def test_chosen_scores_are_those_of_the_whole_table_however_often_a_column_is_chosen(both, generator):
    queries, scores, table = both
    index = torch.randint(ROWS, (QUERIES, 12), generator=generator)
    index[:, 1] = index[:, 0]
    assert scores.unread.shape == table.shape
    assert_same(queries, scores.gather(index), table.gather(1, index), generator)  # before the table is computed
    torch.testing.assert_close(scores.table, table.detach())
    assert not scores.table.requires_grad
    assert_same(queries, scores.gather(index), table.gather(1, index), generator)


@pytest.mark.parametrize("own", [None, torch.tensor([4, 0, 29, 3, 3]), OWN], ids=["none", "one", "several"])
def test_all_scores_leave_out_the_query_s_own_columns_and_the_table_can_be_read_again(both, own, generator):
    queries, scores, table = both
    left_out = torch.zeros(QUERIES, ROWS, dtype=torch.bool)
    for query, columns in enumerate([[]] * QUERIES if own is None else own.view(QUERIES, -1).tolist()):
        left_out[query, [column for column in columns if column >= 0]] = True
    index = torch.randint(ROWS, (QUERIES, 3), generator=generator)
    every, chosen = scores.every(own, index)
    expected = torch.cat([table.masked_fill(left_out, -torch.inf), table.gather(1, index)], dim=1)
    assert_same(queries, torch.cat([every, chosen], dim=1), expected, generator)
    torch.testing.assert_close(scores.table, table.detach())
    assert scores.every(own)[1] is None


def test_a_penalty_on_gradients_has_the_gradient_that_it_has_by_the_whole_table(both, generator):
    queries, scores, table = both
    index = torch.randint(ROWS, (QUERIES, 3), generator=generator)

    def gradients(*some):
        first = torch.autograd.grad(sum(each.exp().sum() for each in some), queries, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), queries, retain_graph=True)[0]

    torch.testing.assert_close(gradients(scores.gather(index)), gradients(table.gather(1, index)))
    torch.testing.assert_close(gradients(*scores.every(None, index)), gradients(table, table.gather(1, index)))
