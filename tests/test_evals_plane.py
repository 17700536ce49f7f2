"""Features as places in a plane, by principal components and by UMAP."""

import sys
from importlib.util import find_spec

import pytest
import torch

from annulus.errors import InputError
from annulus.evals.plane import MapSettings, principal_plane


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_principal_plane_has_the_widest_direction_first_and_keeps_what_lies_in_it():
    places = torch.randn(50, 2, generator=random()).double() * torch.tensor([5.0, 1.0], dtype=torch.float64)
    axes = torch.linalg.qr(torch.randn(9, 2, generator=random(1)).double()).Q
    plane = principal_plane((places @ axes.T + 3).float())
    assert plane[:, 0].std() > plane[:, 1].std()
    assert torch.allclose(torch.cdist(plane, plane), torch.cdist(places, places), atol=1e-4)
    again = principal_plane((places @ axes.T - 7).float())
    assert torch.allclose(plane, again, atol=1e-4), "a sign of its own"


def test_of_one_feature_the_second_coordinate_is_0():
    features = torch.randn(9, 1, generator=random())
    expected = torch.stack([(features - features.mean()).squeeze(1), torch.zeros(9)], dim=1).double()
    torch.testing.assert_close(principal_plane(features), expected)


@pytest.mark.parametrize("features", [torch.ones(20, 8), torch.eye(2, 8), torch.ones(1, 8), torch.arange(5.0)[:, None]])
def test_images_that_umap_cannot_place_get_their_principal_components(features):
    plane = MapSettings("umap").plane(features, random())
    assert torch.equal(plane, principal_plane(features))
    assert plane.shape == (len(features), 2)
    assert plane.isfinite().all()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("umap") is None, reason="umap-learn is not installed")
def test_umap_places_few_images_and_images_of_equal_direction():
    for features in (torch.randn(3, 8, generator=random()), torch.rand(20, 1, generator=random()) * torch.ones(20, 8)):
        assert MapSettings("umap").plane(features, random()).isfinite().all()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("umap") is None, reason="umap-learn is not installed")
def test_umap_puts_what_is_similar_together_and_gives_the_same_places_again(untouched_global_randomness):
    centres = torch.eye(3, 16)[torch.arange(90) % 3]
    features = centres + 0.1 * torch.randn(90, 16, generator=random())
    plane, again = (MapSettings("umap").plane(features, random(5)) for _ in range(2))
    assert torch.equal(plane, again)
    nearest = torch.cdist(plane, plane).fill_diagonal_(torch.inf).argmin(dim=1)
    assert torch.equal(nearest % 3, torch.arange(90) % 3)


def test_umap_that_is_asked_for_and_missing_is_one_sentence(monkeypatch):
    errors = sys.modules["annulus.errors"]
    monkeypatch.setattr(errors, "find_spec", lambda module: None)
    MapSettings("pca").check_installed()
    with pytest.raises(
        InputError, match=r"map\.by: umap needs umap, which .*annulus-ssl\[umap\].*or take map\.by: pca"
    ):
        MapSettings("umap").check_installed()
