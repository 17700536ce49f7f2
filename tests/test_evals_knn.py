import math
from argparse import Namespace

import knn as stage
import pytest
import torch

from annulus.encoders.features import Features, save_features
from annulus.errors import InputError
from annulus.evals import knn
from annulus.evals.knn import KnnSettings, evaluate_knn, nearest_labels, vote
from annulus.files.right import read_right


def features(vectors, labels, classes=("a", "b", "c", "d", "e", "f", "g")):
    return Features({"pooled": vectors, "embedding": vectors.flip(1)}, torch.as_tensor(labels), classes)


def clouds(count, seed, classes=7):
    """Overlapping clouds around one centre per class, not of unit length."""
    centres = 0.6 * torch.randn(classes, 6, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    return features(centres[labels] + torch.randn(count, 6, generator=generator), labels)


def params(k, temperature=0.07, layer="pooled"):
    return KnnSettings(k=k, temperature=temperature, layer=layer)


def plain_ranking(query, bank, k, temperature):
    """Label of the nearest row, and classes by their votes: loops in float64, as the sources define them."""
    similar = []
    for row, vector in enumerate(bank.layers["pooled"].double()):
        cosine = (query @ vector / query.norm() / vector.norm()).item()
        similar.append((cosine, row))
    similar.sort(key=lambda pair: (-pair[0], pair[1]))
    votes = {}
    for cosine, row in similar[:k]:
        label = int(bank.labels[row])
        votes[label] = votes.get(label, 0.0) + math.exp(cosine / temperature)
    return int(bank.labels[similar[0][1]]), sorted(votes, key=lambda label: (-votes[label], label))


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (20, 1.0), (150, 0.2)])
def test_agrees_with_plain_loops_whatever_the_chunks(monkeypatch, k, temperature):
    monkeypatch.setattr(knn, "SIMILARITIES_AT_ONCE", 23 * 150)
    bank, test = clouds(150, seed=1), clouds(60, seed=2)
    metrics = evaluate_knn(bank, test, params(k, temperature)).metrics
    first, top1, top5 = 0, 0, 0
    for query, label in zip(test.layers["pooled"].double(), test.labels.tolist(), strict=True):
        nearest, ranking = plain_ranking(query, bank, k, temperature)
        first += nearest == label
        top1 += ranking[0] == label
        top5 += label in ranking[:5]
    expected = {"nn1_top1_percent": first / 0.6, "top1_percent": top1 / 0.6, "top5_percent": top5 / 0.6}
    expected |= {"k": k, "temperature": temperature, "images": 60, "bank_images": 150}
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert 20 < metrics["top1_percent"] < 90  # neither chance nor trivial
    assert "class_b_top1_percent" in metrics


def test_finds_the_rows_that_faiss_finds(generator):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed; `make install` brings it")
    bank, queries = torch.randn(3000, 32, generator=generator), torch.randn(200, 32, generator=generator)
    index = faiss.IndexFlatIP(32)
    index.add(torch.nn.functional.normalize(bank, dim=1).numpy())
    expected, rows = index.search(torch.nn.functional.normalize(queries, dim=1).numpy(), 50)
    similarity, places = knn.search(bank, queries, 50)
    torch.testing.assert_close(similarity, torch.from_numpy(expected), rtol=0, atol=1e-6)
    assert (places == torch.from_numpy(rows)).float().mean() > 0.999  # rounding may swap two neighbours


def test_a_zero_vector_is_similar_to_nothing_and_a_bank_must_hold_k_rows():
    bank = torch.tensor([[0.0, 0.0], [-1.0, 0.0]])
    assert [one.tolist() for one in knn.search(bank, torch.tensor([[3.0, 0.0]]), 2)] == [[[0.0, -1.0]], [[0, 1]]]
    for k in (0, 3):
        with pytest.raises(InputError, match=rf"k {k} with a bank of shape \(2, 2\) and .*: give k from 1 to"):
            knn.search(bank, torch.ones(1, 2), k)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(("name", "rows"), [("bank", 20), ("queries", 5)])
def test_rows_that_are_not_finite_are_refused_whatever_the_chunks(number, name, rows, monkeypatch):
    for at_once in (2**24, 20):
        monkeypatch.setattr(knn, "SIMILARITIES_AT_ONCE", at_once)
        features = {"bank": clouds(20, seed=1), "queries": clouds(5, seed=2)}
        features[name].layers["pooled"][[3, 4], [0, 2]] = number
        sentence = (
            rf"^{name} holds NaN or infinity in row 3 \(2 of {rows} rows do\), which have no neighbours; omit such"
        )
        with pytest.raises(InputError, match=sentence):
            evaluate_knn(*features.values(), params(3))
        with pytest.raises(InputError, match=sentence):
            knn.search(*(one.layers["pooled"] for one in features.values()), 1)


def test_large_numbers_are_finite_unless_float32_cannot_hold_them():
    bank = torch.tensor([[1e30, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert knn.search(bank, bank[1:], 2)[1].tolist() == [[1, 0]]
    with pytest.raises(InputError, match=r"^bank holds NaN or infinity in row 0 \(1 of 2 rows do\)"):
        knn.search(bank * 1e20, bank[1:], 2)


def test_neighbours_are_those_of_full_precision_under_autocast():
    bank, queries = clouds(60, seed=0), clouds(40, seed=1)
    similarity, rows = knn.search(bank.layers["pooled"], queries.layers["pooled"], 5)
    with torch.autocast("cpu"):
        actual = knn.search(bank.layers["pooled"], queries.layers["pooled"], 5)
    assert torch.equal(actual[0], similarity)
    assert torch.equal(actual[1], rows)


@pytest.mark.parametrize("factor", [1e-15, 1e-30, 1e20, 1e30])
def test_short_and_long_rows_have_the_neighbours_of_their_directions(factor, generator):
    bank, queries = (torch.randn(count, 6, generator=generator, dtype=torch.float64) for count in (40, 9))
    bank[3] = 0.0
    similarity, rows = knn.search(bank, queries, 5)
    scale = torch.ones(40, 1, dtype=torch.float64)
    scale[::2] = factor
    for actual in (knn.search(bank * scale, queries, 5), knn.search(bank, queries * factor, 5)):
        torch.testing.assert_close(actual[0], similarity)
        assert torch.equal(actual[1], rows)


def test_votes_survive_a_tiny_temperature():
    assert vote(torch.tensor([[0.9, -0.9]]), torch.tensor([[1, 0]]), classes=2, temperature=1e-4).tolist() == [[0, 1]]


def test_of_equally_similar_rows_the_lowest_is_nearest_and_equal_votes_go_to_the_lower_class():
    rows = torch.tensor([[7, 3, 0]])
    assert nearest_labels(torch.tensor([[0.5, 0.5, 0.2]]), rows, torch.arange(10)).item() == 3
    bank = features(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), [5, 2])
    test = features(torch.tensor([[1.0, 0.0]]), [2])
    assert evaluate_knn(bank, test, params(2)).metrics["top1_percent"] == 100.0


def test_top5_counts_no_class_without_a_neighbour_and_ends_with_the_fifth():
    bank = features(torch.eye(4), [0, 1, 2, 3], classes=tuple("abcd"))
    test = features(torch.eye(4), [0, 1, 2, 0], classes=tuple("abcd"))
    assert evaluate_knn(bank, test, params(1)).metrics["top5_percent"] == 75.0  # one neighbour, one proposal
    assert evaluate_knn(bank, test, params(4)).metrics["top5_percent"] == 100.0  # all four classes proposed
    queries = torch.tensor([[6.0, 5, 4, 3, 2, 1]]).expand(2, 6)  # a higher class is less similar
    bank = features(torch.eye(6), torch.arange(6))
    assert evaluate_knn(bank, features(queries, [4, 5]), params(6)).metrics["top5_percent"] == 50.0


def test_neighbours_are_of_the_layer_that_is_asked_for():
    near = torch.eye(2)
    bank = Features({"pooled": near, "embedding": near}, torch.tensor([0, 1]), ("a", "b"))
    test = Features({"pooled": near, "embedding": near.flip(0)}, torch.tensor([0, 1]), ("a", "b"))
    for layer, right in (("pooled", 100.0), ("embedding", 0.0)):
        assert evaluate_knn(bank, test, params(1, layer=layer)).metrics["top1_percent"] == right


def test_without_settings_200_neighbours_of_pooled_features_vote():
    bank, test = clouds(250, seed=1), clouds(60, seed=2)
    assert evaluate_knn(bank, test).metrics == evaluate_knn(bank, test, params(200)).metrics


def test_of_a_bank_of_fewer_than_k_images_all_vote(caplog):
    bank, test = clouds(150, seed=1), clouds(60, seed=2)
    assert evaluate_knn(bank, test, params(200)).metrics == evaluate_knn(bank, test, params(150)).metrics
    assert caplog.messages == ["WARNING: kNN: k 200 is more than the bank's 150 training images; all of them vote"]


@pytest.mark.parametrize(
    ("classes", "message"), [("ab", "2, and they differ in c; make both of one"), ("bacdefg", "7, .* in their order")]
)
def test_splits_of_different_image_sets_are_refused(classes, message):
    bank, test = clouds(10, seed=1), clouds(10, seed=2)
    with pytest.raises(InputError, match=f"7 classes, test features {message}"):
        evaluate_knn(bank, Features(test.layers, test.labels % 2, tuple(classes)), params(1))


def test_images_without_a_class_and_no_images_have_no_accuracy():
    bank, test = clouds(10, seed=1), clouds(10, seed=2)
    without = Features(test.layers, test.labels.index_fill(0, torch.tensor([3, 5]), -1), test.classes)
    for train, queries, message in (
        (bank, without, "2 of 10 test images have no class"),
        (without, test, "2 of 10 train images have no class"),
        (bank, clouds(0, seed=1), "test features are of no image"),
        (clouds(0, seed=1), test, "train features are of no image"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_knn(train, queries, params(1))


def test_the_stage_takes_training_images_as_bank_and_test_images_as_queries(tmp_path):
    classes = ("a", "b", "c")
    save_features(tmp_path / "3", "train", features(torch.eye(4)[:, :3], [0, 1, 2, 2], classes))
    save_features(tmp_path / "3", "test", features(torch.eye(3), [1, 2, 0], classes))  # right only among themselves
    for layer in ("pooled", "embedding"):
        paths = Namespace(features=tmp_path, right=tmp_path / "right.json")
        metrics = stage.main({"seeds": [3], "knn": params(1, layer=layer)}, paths).seeds[3]
        assert read_right(paths.right)["top1_percent"][3].tolist() == [False] * 3
        assert (metrics["bank_images"], metrics["images"]) == (4, 3)
        assert metrics["nn1_top1_percent"] == metrics["top1_percent"] == 0.0
