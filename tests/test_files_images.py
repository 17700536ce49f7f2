import pytest
import torch

from annulus.errors import InputError
from annulus.files.images import LEAST_STD, ImageSet, load_images, save_images
from annulus.files.packed import write_packed
from annulus.files.store import Resident


def image_set(count: int, generator: torch.Generator) -> ImageSet:
    images = torch.randint(256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return ImageSet(Resident(images), torch.arange(count) % 3, 10 * torch.arange(count), ("ant", "bee", "cat"))


@pytest.mark.parametrize("count", [0, 7])
def test_what_is_loaded_is_what_was_saved(count, tmp_path, generator):
    saved = image_set(count, generator)
    save_images(tmp_path / "a.safetensors", saved)
    loaded = load_images(tmp_path / "a.safetensors")
    assert torch.equal(loaded.images.pixels, saved.images.pixels)
    for name in ("labels", "rows"):
        assert torch.equal(getattr(loaded, name), getattr(saved, name))
    assert (loaded.classes, loaded.digest, len(loaded)) == (saved.classes, saved.digest, count)


def test_the_digest_sees_pixels_labels_and_classes_but_not_layout_or_rows(generator):
    one = image_set(6, generator)
    whole = one.images.pixels
    pixels = whole.clone()
    pixels[5, 2, 7, 7] ^= 1
    others = [
        ImageSet(Resident(pixels), one.labels, one.rows, one.classes),
        ImageSet(one.images, one.labels.roll(1), one.rows, one.classes),
        ImageSet(one.images, one.labels + 256, one.rows, one.classes),
        ImageSet(one.images, one.labels, one.rows, ("ant", "bee", "dog")),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 5
    last = Resident(whole.contiguous(memory_format=torch.channels_last))
    assert ImageSet(last, one.labels, one.rows + 1, one.classes).digest == one.digest


def test_channel_statistics_are_those_of_the_pixels(generator):
    images = image_set(50, generator)
    pixels = images.images.pixels.double() / 255
    mean, std = images.channel_statistics()
    torch.testing.assert_close(torch.tensor(mean).double(), pixels.mean((0, 2, 3)).double(), atol=1e-7, rtol=0)
    expected = pixels.transpose(0, 1).flatten(1).std(dim=1, correction=0)
    torch.testing.assert_close(torch.tensor(std).double(), expected, atol=1e-7, rtol=0)


def test_a_channel_that_varies_in_one_pixel_alone_is_not_divided_by_next_to_nothing(generator):
    images = image_set(36, generator)
    images.images.pixels[:, 0] = 7
    images.images.pixels[:, 1] = 0
    images.images.pixels[5, 1, 0, 0] = 255
    mean, std = images.channel_statistics()
    assert std[:2] == (0.0, LEAST_STD)
    assert (1 - mean[1]) / std[1] <= 32


def test_take_keeps_pixels_labels_and_rows_together(generator):
    images = image_set(9, generator)
    some = images.take(torch.tensor([4, 2]))
    assert some.rows.tolist() == [40, 20]
    assert some.labels.tolist() == [1, 2]
    assert torch.equal(some.images.pixels, images.images.pixels[[4, 2]])
    assert len(images.take(torch.zeros(9, dtype=torch.bool))) == 0


def test_images_of_the_same_pixels_have_one_fingerprint_and_all_others_another(generator):
    pixels = image_set(6, generator).images.pixels
    pixels[4] = pixels[1]
    fingerprints = Resident(pixels).fingerprints()
    assert fingerprints.dtype == torch.int64
    assert fingerprints[4] == fingerprints[1]
    assert len(set(fingerprints.tolist())) == 5
    last = Resident(pixels.contiguous(memory_format=torch.channels_last))
    assert torch.equal(last.fingerprints(), fingerprints)


def test_the_next_two_batches_are_prepared_while_one_is_used(generator):
    begun = []

    class Prepared(Resident):
        def ahead(self, batches):
            begun.append([batch.tolist() for batch in batches])

    images = Prepared(image_set(8, generator).images.pixels)
    batches = torch.arange(8).split(2)
    for place, (index, pixels) in enumerate(images.in_turn(batches)):
        assert len(begun) == place + 1
        assert torch.equal(index, batches[place])
        assert torch.equal(pixels, images.pixels[index])
    assert begun == [[[2, 3], [4, 5]], [[4, 5], [6, 7]], [[6, 7]], []]
    assert images.memory(2) == 8 * 3 * 8 * 8


def test_a_packed_file_of_something_else_says_so(tmp_path):
    write_packed(tmp_path / "features.safetensors", {"pooled": torch.zeros(2, 3)}, {"classes": ["a"]})
    with pytest.raises(InputError, match=r"features.safetensors .* holds no images; give a file that `prepare` wrote"):
        load_images(tmp_path / "features.safetensors")
