import pytest
import torch

from annulus.evals.accuracy import NOT_PROPOSED, class_percents, confusion_rows, label_ranks, percent


def test_ranks_agree_with_sorting_each_row():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (200, 7), generator=generator).double()  # few values, so many ties
    labels = torch.randint(0, 7, (200,), generator=generator)
    for row, rank in enumerate(label_ranks(scores, labels)):
        order = sorted(range(7), key=lambda number: (-scores[row, number].item(), number))
        assert rank == order.index(labels[row])


def test_a_class_that_was_not_proposed_is_never_right_and_nan_scores_are_refused():
    scores = torch.tensor([[-torch.inf, 1.0, -torch.inf]])
    assert label_ranks(scores, torch.tensor([0])).item() == NOT_PROPOSED
    with pytest.raises(ValueError, match="NaN"):
        label_ranks(torch.tensor([[0.0, torch.nan]]), torch.tensor([0]))


def test_each_class_with_images_gets_its_own_percent_and_names_that_fall_together_a_number():
    right, labels = torch.tensor([True, False, True, True]), torch.tensor([0, 0, 2, 2])
    assert percent(right) == 75.0
    percents = class_percents(right, labels, ["bird", "cat", "deer mouse"])
    assert percents == {"class_bird_top1_percent": 50.0, "class_deer_mouse_top1_percent": 100.0}
    percents = class_percents(torch.tensor([True, False]), torch.tensor([0, 1]), ["a b", "a_b"])
    assert percents == {"class_0_a_b_top1_percent": 100.0, "class_1_a_b_top1_percent": 0.0}


def test_of_many_classes_only_the_worst_and_the_best_are_named():
    labels, names = torch.arange(21).repeat_interleave(2), [f"c{number}" for number in range(21)]
    right = torch.arange(42) % 2 == 0  # one of two
    right[[6, 41]] = torch.tensor([False, True])  # none of class 3, both of class 20
    percents = class_percents(right, labels, names)
    assert percents == {
        **{"worst_class": "c3", "worst_class_top1_percent": 0.0},
        **{"best_class": "c20", "best_class_top1_percent": 100.0},
    }
    assert len(class_percents(right[:40], labels[:40], names[:20])) == 20  # still listed


def test_confusion_has_one_sorted_row_per_image():
    rows = confusion_rows(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 0]), ["cat", "dog"])
    assert [(row["actual"], row["predicted"]) for row in rows] == [("cat", "dog"), ("dog", "cat"), ("dog", "dog")]
