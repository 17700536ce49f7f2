"""Networks for images of 32 pixels: their published sizes, their blocks written out, and their refusals."""

import pytest
import torch
import torch.nn.functional as F
from torchvision.models.vgg import cfgs, make_layers

from annulus.errors import InputError
from annulus_lab.studies.distillation.classifiers.config import NAMES
from annulus_lab.studies.distillation.classifiers.mobilenet import InvertedResidual
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.shufflenet import GroupedBottleneck
from annulus_lab.studies.distillation.classifiers.wide import PreactivationBlock

# Width of the features, side of the last map of an image of 32 pixels, weights with 100 classes. The weights were
# counted in the networks of the reference implementation of arXiv:1910.10699 (RepDistiller), run beside this project.
# They are not published; PUBLISHED below has the published numbers.
NETWORKS = {
    "resnet8": (64, 8, 83_892),
    "resnet14": (64, 8, 181_108),
    "resnet20": (64, 8, 278_324),
    "resnet32": (64, 8, 472_756),
    "resnet44": (64, 8, 667_188),
    "resnet56": (64, 8, 861_620),
    "resnet110": (64, 8, 1_736_564),
    "resnet8x4": (256, 8, 1_233_540),
    "resnet32x4": (256, 8, 7_433_860),
    "resnet50": (2048, 4, 23_705_252),
    "wrn_16_1": (64, 8, 180_916),
    "wrn_16_2": (128, 8, 703_284),
    "wrn_40_1": (64, 8, 569_780),
    "wrn_40_2": (128, 8, 2_255_156),
    "vgg8": (512, 4, 3_965_028),
    "vgg13": (512, 4, 9_462_180),
    "mobilenet_v2": (1280, 2, 812_836),
    "shufflenet_v1": (960, 4, 949_258),
    "shufflenet_v2": (1024, 4, 1_355_528),
}
# He et al. 2016, arXiv:1512.03385, Table 6, and Zagoruyko and Komodakis 2016, arXiv:1605.07146, Table 4: millions of
# weights with 10 classes.
PUBLISHED = {"resnet20": 0.27, "resnet32": 0.46, "resnet44": 0.66, "resnet56": 0.85, "resnet110": 1.7}
PUBLISHED |= {"wrn_40_1": 0.6, "wrn_40_2": 2.2}


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_a_network_has_the_reference_s_weights_width_and_map(name):
    width, side, weights = NETWORKS[name]
    network = build_classifier(name, classes=100, seed=0).eval()
    with torch.no_grad():
        maps = network.backbone(torch.zeros(1, 3, 32, 32))
    assert (count(network), network.width, tuple(maps.shape)) == (weights, width, (1, width, side, side))
    if name in PUBLISHED:  # with 10 classes, and He et al.'s shortcuts for CIFAR have no weights
        shortcuts = sum(count(part) for key, part in network.named_modules() if key.endswith("downsample"))
        digits = len(str(PUBLISHED[name]).split(".")[1])
        assert round((weights - 90 * (width + 1) - shortcuts) / 10**6, digits) == PUBLISHED[name]


def test_vgg13_is_torchvision_s_convolutions_with_three_halvings():
    ours, theirs = build_classifier("vgg13", 100, seed=0).eval(), make_layers(cfgs["B"], batch_norm=True).eval()
    state = dict(zip(theirs.state_dict(), ours.backbone.state_dict().values(), strict=True))
    theirs.load_state_dict(state)
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    layers = [layer for number, layer in enumerate(theirs) if number not in (27, 34)]  # the last two poolings
    plain = torch.nn.Sequential(*layers)(images).mean(dim=(2, 3))
    torch.testing.assert_close(ours.features(images), plain)


@pytest.fixture
def block_input(generator, in_float64):
    return torch.randn(2, 24, 7, 7, generator=generator)


def with_statistics(block):
    """The block in evaluation mode, its batch-norms with statistics and weights of their own."""
    random = torch.Generator().manual_seed(3)
    for norm in block.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            for tensor in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
                tensor.uniform_(0.2, 1.5, generator=random)
    return block.double().eval()


def normalise(maps, norm):
    column = (-1, 1, 1)
    spread = (norm.running_var + norm.eps).sqrt().view(column)
    return (maps - norm.running_mean.view(column)) / spread * norm.weight.view(column) + norm.bias.view(column)


@pytest.mark.parametrize(("channels", "stride"), [(24, 1), (40, 2), (40, 1)])
def test_a_wide_block_normalises_and_rectifies_before_it_convolves(block_input, channels, stride):
    block = with_statistics(PreactivationBlock(24, channels, stride))
    rectified = normalise(block_input, block.bn1).clamp_min(0)
    inside = normalise(F.conv2d(rectified, block.conv1.weight, None, stride, 1), block.bn2).clamp_min(0)
    shortcut = block_input if channels == 24 else F.conv2d(rectified, block.shortcut.weight, None, stride)
    torch.testing.assert_close(block(block_input), F.conv2d(inside, block.conv2.weight, None, 1, 1) + shortcut)


@pytest.mark.parametrize(("channels", "stride"), [(24, 1), (32, 1), (24, 2)])
def test_an_inverted_residual_ends_linear_and_adds_only_equal_maps(block_input, channels, stride):
    block = with_statistics(InvertedResidual(24, channels, stride, times=3))
    first, norm1, _, depthwise, norm2, _, last, norm3 = block.layers
    inside = normalise(F.conv2d(block_input, first.weight), norm1).clamp_min(0)
    inside = normalise(F.conv2d(inside, depthwise.weight, None, stride, 1, groups=72), norm2).clamp_min(0)
    expected = normalise(F.conv2d(inside, last.weight), norm3)
    added = block_input if (channels, stride) == (24, 1) else 0
    torch.testing.assert_close(block(block_input), expected + added)


@pytest.mark.parametrize(("inputs", "stride"), [(24, 2), (48, 1), (48, 2)])
def test_a_grouped_bottleneck_shuffles_and_puts_the_pooled_input_beside(generator, in_float64, inputs, stride):
    maps = torch.randn(2, inputs, 7, 7, generator=generator)
    block = with_statistics(GroupedBottleneck(inputs, 48 if stride == 1 else 96, stride))
    groups = 1 if inputs == 24 else 3
    inside = normalise(F.conv2d(maps, block.conv1.weight, groups=groups), block.bn1).clamp_min(0)
    each = inside.shape[1] // groups
    inside = inside[:, [group * each + place for place in range(each) for group in range(groups)]]
    inside = normalise(F.conv2d(inside, block.conv2.weight, None, stride, 1, groups=inside.shape[1]), block.bn2)
    branch = normalise(F.conv2d(inside.clamp_min(0), block.conv3.weight, groups=3), block.bn3)
    shortcut = F.avg_pool2d(maps, 3, 2, 1)
    expected = branch + maps if stride == 1 else torch.cat([branch, shortcut], dim=1)
    torch.testing.assert_close(block(maps), expected.clamp_min(0))


@pytest.mark.parametrize("name", ["resnet8x4", "resnet50", "wrn_16_2", "vgg8", *NAMES[-3:]])
def test_every_weight_learns_from_small_images(name):
    network = build_classifier(name, classes=3, seed=0)
    images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    F.cross_entropy(network(images), torch.tensor([0, 1, 2, 0])).backward()
    norms = {key: weight.grad.norm() for key, weight in network.named_parameters()}
    assert [key for key, norm in norms.items() if not (norm > 0 and norm.isfinite())] == []


def test_the_scores_are_those_of_the_features_and_images_are_normalised_inside():
    mean, std = torch.tensor([[0.5, 0.4, 0.3], [0.2, 0.25, 0.3]]).view(2, 3, 1, 1)
    plain = build_classifier("resnet8", classes=5, seed=0).eval()
    inside = build_classifier("resnet8", 5, 0, ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))).eval()
    images = torch.rand(3, 3, 20, 20, generator=torch.Generator().manual_seed(1))
    features = plain.features(images)
    assert features.shape == (3, plain.width)
    torch.testing.assert_close(plain(images), features @ plain.head.weight.T + plain.head.bias)
    torch.testing.assert_close(inside(images), plain((images - mean) / std))


def test_the_seed_decides_the_weights(untouched_global_randomness):
    same, again, other = (build_classifier("vgg8", 4, seed).state_dict() for seed in (0, 0, 1))
    torch.testing.assert_close(same, again, rtol=0, atol=0)
    assert not torch.equal(same["head.weight"], other["head.weight"])


@pytest.mark.parametrize(("name", "head"), [("vgg8", 0.01), ("mobilenet_v2", 0.01), ("resnet20", 0.072)])
def test_first_weights_are_as_large_as_those_of_the_reference(name, head):
    network = build_classifier(name, 100, seed=0)
    conv = [layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)][1]
    expected = (2 / (conv.out_channels * conv.weight[0, 0].numel())) ** 0.5
    assert conv.weight.std().item() == pytest.approx(expected, rel=0.15)
    assert network.head.weight.std().item() == pytest.approx(head, rel=0.05)  # uniform to ±1/8 of 64: 1/(8 √3)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: build_classifier("resnet20x", 10, 0), "no network is named 'resnet20x'; did you mean 'resnet20'"),
        (lambda: build_classifier("WRN-40-2", 10, 0), "did you mean 'wrn_40_2'"),
        (lambda: build_classifier("ShuffleV1", 10, 0), "did you mean 'shufflenet_v1'"),
        (lambda: build_classifier("vgg8", 0, 0), "a classifier of 0 classes; give a number from 1"),
        (lambda: build_classifier("vgg8", 2, 0, ((0.0,) * 3, (0.2, 0.0, 0.2))), "expected numbers above 0"),
        (lambda: build_classifier("vgg8", 2, 0)(torch.zeros(2, 3, 7, 9)), "vgg8 got images of 7 x 9 pixels.* at least"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(build, sentence):
    with pytest.raises(InputError, match=sentence):
        build()
