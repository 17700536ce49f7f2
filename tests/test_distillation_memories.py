"""Contrast of a student and its teacher against plain loops: losses, gradients, negatives, memories."""

import itertools
import math

import pytest
import torch

from annulus.device.rng import derive
from annulus.errors import InputError
from annulus.negatives.clusters import kmeans
from annulus.negatives.samplers import Sampler
from annulus.negatives.selection import Selection
from annulus_lab.config.params import filled
from annulus_lab.studies.distillation.contrast import build_contrast
from annulus_lab.studies.distillation.distillation_params import ContrastParams
from annulus_lab.studies.distillation.memories import SIDES, ContrastiveDistillation
from annulus_lab.studies.distillation.objective import kd_loss

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
IMAGES, CLASSES, NEGATIVES, TEMPERATURE = 24, 3, 7, 0.5
LABELS = torch.arange(IMAGES) % CLASSES
ROWS = torch.tensor([3, 11, 20, 5])
SAMPLERS = {
    "uniform": {},
    "ball": {"outer": 0.3},
    "ring": {"inner": 0.1, "outer": 0.4},
    "cave": {"outer": 0.6, "clusters": 6, "runs": 1, "iterations": 5, "keep": "outside"},
}
BOUNDS = [("binary-nce", None), ("infonce", None), ("cpc", 0.2), ("mlcpc", 1.0), ("mlcpc", 0.05)]


SETTINGS = {"dim": 4, "temperature": TEMPERATURE, "negatives": NEGATIVES, "negatives_from": "other-classes"}
SETTINGS |= {"bank_rate": 0.25, "bound": "infonce", "alpha": None, "normaliser": "first-batch-candidates"}
SETTINGS |= {"sampler": "uniform", "samplers": SAMPLERS}


def make_contrast(seed=0, labels=LABELS, **changes):
    params = filled(ContrastParams, SETTINGS | changes)
    return ContrastiveDistillation((5, 6), labels, params, build_contrast(params), seed, epoch_steps=6).double()


def features(seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(len(ROWS), width, generator=generator, dtype=torch.float64) for width in (5, 6)]
    return draw[0].requires_grad_(), draw[1]


class Fixed(Sampler):
    """Sampler of negatives that the test has set."""

    shares = 0.0, 1.0

    def __init__(self, index):
        self.index = index

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        return Selection(self.index)


def with_fixed(contrast, seed=0):
    index = torch.randint(IMAGES, (len(ROWS), NEGATIVES), generator=torch.Generator().manual_seed(seed))
    for each in contrast.contrasts:
        object.__setattr__(each.config, "sampler", Fixed(index))
    return index


def plain_loss(queries, bank, index, bound, alpha, z):
    """One direction's loss by loops, from queries and rows of the other's memory; z is the normaliser, or None."""
    scores = [
        [torch.dot(query, bank[row]) / TEMPERATURE for row in [int(own), *chosen.tolist()]]
        for query, own, chosen in zip(queries, ROWS, index, strict=True)
    ]
    if bound == "binary-nce":
        values = [score.exp() for row in scores for score in row]
        z = float(sum(values).detach()) / len(values) * IMAGES if z is None else z
        loss, noise = 0.0, NEGATIVES / IMAGES
        for positive, *negatives in scores:
            p = positive.exp() / z
            loss = loss - (p / (p + noise)).log()
            for negative in negatives:
                loss = loss - (noise / (negative.exp() / z + noise)).log()
        return loss / len(scores), z
    m, n, alpha = NEGATIVES + 1, len(scores), 1.0 if alpha is None else alpha
    beta = (m - alpha) / (m - 1)
    total = [alpha * row[0].exp() + beta * sum(score.exp() for score in row[1:]) for row in scores]
    if bound == "mlcpc":  # log(m/alpha) - J: one denominator for the batch
        terms = [(n * m * row[0].exp() / sum(total)).log() for row in scores]
    else:
        terms = [(m * row[0].exp() / own).log() for row, own in zip(scores, total, strict=True)]
    return math.log(m / alpha) - sum(terms) / n, z


@pytest.mark.parametrize(("bound", "alpha"), BOUNDS)
def test_loss_gradients_and_memories_are_those_of_plain_loops_step_after_step(bound, alpha):
    """Both directions, each with its own normaliser; rows are written after the step, entry by entry."""
    contrast = make_contrast(bound=bound, alpha=alpha)
    rows = [bank.rows.tolist() for bank in contrast.banks]
    normalisers = [None, None]
    for step in range(3):
        index = with_fixed(contrast, step)
        student, teacher = features(step)
        estimate = contrast(student, teacher, ROWS, LABELS[ROWS])
        actual = torch.autograd.grad(estimate.loss, [student, *contrast.heads.parameters()])
        banks = [torch.tensor(each, dtype=torch.float64) for each in rows]
        embeddings = [
            (each @ head.weight.T + head.bias) / (each @ head.weight.T + head.bias).norm(dim=1, keepdim=True)
            for head, each in zip(contrast.heads, (student, teacher), strict=True)
        ]
        towards, normalisers[0] = plain_loss(embeddings[0], banks[1], index, bound, alpha, normalisers[0])
        back, normalisers[1] = plain_loss(embeddings[1], banks[0], index, bound, alpha, normalisers[1])
        torch.testing.assert_close(estimate.loss, towards + back)
        expected = torch.autograd.grad(towards + back, [student, *contrast.heads.parameters()])
        torch.testing.assert_close(actual, expected)
        assert [bank.rows.tolist() for bank in contrast.banks] == rows, "no row is written before the step"
        contrast.after_step(ROWS)
        for side, memory in enumerate(rows):
            for place, row in enumerate(ROWS.tolist()):
                pairs = zip(memory[row], embeddings[side][place].tolist(), strict=True)
                mixed = [0.25 * old + 0.75 * new for old, new in pairs]
                length = math.sqrt(sum(each**2 for each in mixed))
                memory[row] = [each / length for each in mixed]
            torch.testing.assert_close(contrast.banks[side].rows, torch.tensor(memory, dtype=torch.float64))
            rows[side] = contrast.banks[side].rows.tolist()


@pytest.mark.parametrize("sampler", list(SAMPLERS))
@pytest.mark.parametrize("origin", ["other-classes", "all"])
def test_negatives_are_of_the_sampler_s_ranks_and_of_other_classes_where_asked(sampler, origin):
    contrast = make_contrast(sampler=sampler, negatives_from=origin, negatives=400)
    draws, original = [], contrast.contrasts[0].config.sampler

    class Watched(Fixed):
        clustering, shares = original.clustering, original.shares

        def draw(self, *args):
            draws.append((args[0].clone(), original.draw(*args)))
            return draws[-1][1]

    for each in contrast.contrasts:
        object.__setattr__(each.config, "sampler", Watched(None))
    contrast(*features(), ROWS, LABELS[ROWS])
    first, last = (math.floor(share * (IMAGES - 1) + 1e-6) for share in original.shares)
    for contrasted, (scores, selection) in zip(contrast.contrasts, draws, strict=True):
        for query, own in enumerate(ROWS.tolist()):
            others = [row for row in range(IMAGES) if (row != own if origin == "all" else LABELS[row] != LABELS[own])]
            kept = set(sorted(others, key=lambda row: -scores[query, row].item())[first:last])
            if sampler == "cave":
                clusters = contrasted.clusters[0]
                kept = {row for row in kept if clusters[row] != clusters[own]}
            assert set(selection.index[query].tolist()) == kept


def test_a_query_s_clusters_are_those_of_the_other_network_s_memory_anew_each_epoch():
    """An epoch has six steps."""
    contrast = make_contrast(sampler="cave").float()
    for step in range(13):
        if step % 6 == 0:
            rows = [bank.rows.clone() for bank in contrast.banks]
        contrast(*(each.float() for each in features(step)), ROWS, LABELS[ROWS])
        for each, side, memory in zip(contrast.contrasts, SIDES, reversed(rows), strict=True):
            assert torch.equal(each.clusters, kmeans(memory, 6, 5, 1, derive(0, "clusters", side, step // 6)))
        contrast.after_step(ROWS)


def test_memories_start_apart_and_directions_draw_apart_as_those_of_two_seeds_do():
    both = [make_contrast(seed) for seed in (0, 1)]
    rows = [bank.rows for contrast in both for bank in contrast.banks]
    states = [each.generator.get_state() for contrast in both for each in contrast.contrasts]
    weights = [contrast.heads[0].weight for contrast in both]
    for tensors in (rows, states, weights):
        assert not any(one.equal(other) for one, other in itertools.combinations(tensors, 2))


def test_a_moving_average_keeps_99_percent_of_its_normaliser():
    settings = SETTINGS | {"bound": "binary-nce", "normaliser": "moving-average"}
    assert build_contrast(filled(ContrastParams, settings)).bound.rate == 0.99


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bound": "cpc"}, "alpha: None with bound cpc; give a number, such as 1.0"),
        ({"bound": "infonce", "alpha": 0.1}, "alpha: 0.1 with bound infonce; give null, as infonce has no weight"),
        ({"bound": "mlcpc", "alpha": 8.0}, "alpha: 8 with 7 negatives leaves them no weight; take alpha below 8"),
        (
            {"labels": (torch.arange(IMAGES) < 11).long(), "sampler": "ring", "samplers": {"inner": 0.5, "outer": 1.0}},
            r"has 13 of the 24 images, so ranks 11 to 22 may hold none",
        ),
    ],
)
def test_an_alpha_of_another_bound_and_a_sampler_that_may_leave_only_the_query_s_class_are_refused(changes, sentence):
    if "samplers" in changes:
        changes = changes | {"samplers": SAMPLERS | {"ring": changes["samplers"]}}
    with pytest.raises((InputError, ValueError), match=sentence):
        make_contrast(**changes)


def test_softened_answers_are_hinton_s_divergence_with_a_gradient_that_no_temperature_shrinks():
    generator = torch.Generator().manual_seed(0)
    student, teacher = (torch.randn(3, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    for temperature in (1.0, 4.0):
        total = 0.0
        for s, t in zip(student.tolist(), teacher.tolist(), strict=True):
            student_exps, teacher_exps = ([math.exp(each / temperature) for each in scores] for scores in (s, t))
            for a, b in zip(student_exps, teacher_exps, strict=True):
                p = b / sum(teacher_exps)
                total += p * math.log(p / (a / sum(student_exps)))
        actual = kd_loss(student, teacher, temperature)
        assert actual.item() == pytest.approx(total * temperature**2 / 3)
    assert kd_loss(teacher, teacher, 4.0).item() == pytest.approx(0)
    large = student.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kd_loss(large, teacher, 1e4), large)
    centred = (student - student.mean(dim=1, keepdim=True)) - (teacher - teacher.mean(dim=1, keepdim=True))
    torch.testing.assert_close(gradient, centred / 4 / 3, rtol=1e-3, atol=1e-5)  # Hinton et al.'s limit


def test_a_teacher_gets_no_gradient_of_contrast_or_softened_answers():
    student, teacher = features()
    contrast = make_contrast()(student, teacher.requires_grad_(), ROWS, LABELS[ROWS]).loss
    answers = kd_loss(student, teacher[:, :5], 2.0)
    for loss in (contrast, answers):
        mine, other = torch.autograd.grad(loss, [student, teacher], allow_unused=True)
        assert mine.abs().sum() > 0
        assert other is None


def test_a_resumed_contrast_makes_the_same_step():
    """Banks, normaliser, draws and the number of steps are in the state."""
    first, other = (make_contrast(seed, bound="binary-nce", sampler="cave") for seed in (0, 1))
    for each in range(2):
        first(*features(each), ROWS, LABELS[ROWS])
        first.after_step(ROWS)
    other.load_state_dict(first.state_dict())
    losses = [each(*features(7), ROWS, LABELS[ROWS]).loss for each in (first, other)]
    torch.testing.assert_close(*losses, rtol=0, atol=0)
