"""Every method, with one network and with a split's two, against plain loops; its memories and clusters."""

import logging
from dataclasses import replace
from types import MethodType

import method_cases as cases
import pytest
import torch
import torch.nn.functional as F
from plain_objectives import assert_same, plain_embeddings, plain_of

from annulus.device.rng import derive
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.errors import InputError
from annulus.methods.step import Setting
from annulus.negatives.clusters import kmeans
from annulus.negatives.samplers import Cave, Uniform

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
each_encoder = pytest.mark.parametrize("encoder", [cases.Given, cases.GivenPair])
each_with_memory = pytest.mark.parametrize("name", ["ir", "moco"])


def changed(name, **settings):
    return replace(cases.PARAMS[name], **settings)


@pytest.mark.parametrize("name", cases.PARAMS)
@pytest.mark.parametrize(  # a method may mistake columns, own columns, positive, images, progress, draws
    ("sampler", "neighbours", "bound", "negatives", "progress"),
    [
        ("uniform", "none", "infonce", "all", cases.PROGRESS),
        ("ring", "s", "infonce", "all", cases.at(0.3, 0.5)),
        ("ring", "k", "la", "all", cases.at(0.9, 1.0)),
        ("ring", "none", "mlcpc", 15, cases.PROGRESS),
        ("ball", "none", "binary-nce moving-average", 4, cases.at(0.0, 0.0)),
        ("outside", "s", "cpc eqco", 15, cases.PROGRESS),
        ("inside", "none", "cpc", "all", cases.PROGRESS),
    ],
)
def test_of_two_networks_value_and_gradients_are_those_of_the_sum_of_plain_losses(
    name, sampler, neighbours, bound, negatives, progress
):
    """CMC, CMCRing, CMCCave and the same for every method. For one network: test_methods_contrast.py."""
    config = cases.config_of(sampler, neighbours, bound, negatives)
    cases.assert_as_plain(cases.method_of(cases.PARAMS[name], config, cases.GivenPair), progress)


@pytest.mark.parametrize("name", cases.PARAMS)
def test_views_beyond_those_of_a_method_are_not_read(name):
    views = [*cases.VIEWS[cases.Given]]
    own, more = (
        cases.method_of(cases.PARAMS[name], cases.config_of("uniform")).loss(shown_views, cases.INDEX).estimate.loss
        for shown_views in (views, [*views, views[0]])
    )
    assert own == more


CRITICS = ["bilinear", "mlp-1"]


@pytest.mark.parametrize(
    "params", [*cases.PARAMS.values(), *(replace(cases.PARAMS["ir"], critic=critic) for critic in CRITICS)]
)
def test_in_a_loop_under_autocast_networks_compute_in_its_type_and_scores_in_full(params, monkeypatch):
    """Lightning's "bf16-mixed" is such a loop. The bits equal a run with autocast around the networks alone."""
    monkeypatch.delenv("ANNULUS_PRECISION", raising=False)

    def loss_and_gradients(autocast):
        torch.manual_seed(5)
        encoder = ModuleEncoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, cases.DIM)), cases.DIM)
        method = cases.method_of(params, cases.config_of("ring", negatives=4), encoder).float()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = method.loss([view.float() for view in cases.VIEWS[cases.Given]], cases.INDEX).estimate.loss
        return torch.cat([loss.view(1), *(each.flatten() for each in torch.autograd.grad(loss, encoder.parameters()))])

    with torch.random.fork_rng():
        actual, full = loss_and_gradients(autocast=True), loss_and_gradients(autocast=False)
        monkeypatch.setenv("ANNULUS_PRECISION", "bf16")
        assert torch.equal(actual, loss_and_gradients(autocast=False))
    assert not torch.equal(actual, full)


@pytest.mark.parametrize("name", cases.PARAMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_method_that_is_in_half_precision_as_a_whole_scores_in_full_and_stores(name, dtype):
    """Lightning's precision "bf16-true" converts a whole method."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, cases.DIM))
    method = cases.method_of(cases.PARAMS[name], cases.config_of("uniform"), ModuleEncoder(network, cases.DIM)).float()
    views = [view.float() for view in cases.VIEWS[cases.Given]]
    full = method.loss(views, cases.INDEX).estimate.loss
    step = method.to(dtype).loss([view.to(dtype) for view in views], cases.INDEX)
    assert step.estimate.loss.dtype == torch.float32
    torch.testing.assert_close(step.estimate.loss, full, rtol=0.05, atol=0.05)
    step.estimate.loss.backward()
    method.after_step(cases.INDEX, step)
    assert method.stored is None or method.stored.isfinite().all()


def small_method(name, contrast=None):
    """A method with a small network in float32, and views of a batch."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, cases.DIM))
    method = cases.method_of(cases.PARAMS[name], contrast, ModuleEncoder(network, cases.DIM)).float()
    return method, [view.float() for view in cases.VIEWS[cases.Given]]


def loss_and_gradients(method, step):
    return [step.estimate.loss, *torch.autograd.grad(step.estimate.loss, method.encoder.parameters())]


def test_a_forward_that_accelerate_wraps_in_autocast_computes_in_its_type():
    """accelerate's `prepare` replaces `forward` on the instance by the class's own, under autocast."""
    method, views = small_method("simclr")
    with torch.autocast("cpu", torch.bfloat16):
        step = method.loss(views)
    expected = loss_and_gradients(method, step)
    full = loss_and_gradients(method, method(views))
    method.forward = MethodType(torch.autocast("cpu", torch.bfloat16)(type(method).forward), method)
    actual = loss_and_gradients(method, method(views))
    assert all(map(torch.equal, actual, expected))
    assert not torch.equal(actual[0], full[0])


def test_accelerate_s_own_bf16_is_autocast():
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed; pip install accelerate")
    method, views = small_method("simclr")
    with torch.autocast("cpu", torch.bfloat16):
        expected = method.loss(views).estimate.loss
    with torch.random.fork_rng():
        prepared = accelerate.Accelerator(mixed_precision="bf16", cpu=True).prepare(method)
    assert torch.equal(prepared(views).estimate.loss, expected)


@pytest.mark.parametrize("name", cases.PARAMS)
def test_a_call_of_a_method_is_its_loss_and_hooks_and_torch_compile_see_it(name):
    (called, views), (plain, _), calls = small_method(name), small_method(name), []
    called.register_forward_hook(lambda method, arguments, step: calls.append((arguments, step)))
    arguments = views, cases.INDEX, cases.PROGRESS
    step = called(*arguments)
    actual, expected = loss_and_gradients(called, step), loss_and_gradients(plain, plain.loss(*arguments))
    assert all(map(torch.equal, actual, expected))
    assert calls == [(arguments, step)]
    compiled, _ = small_method(name)
    again = loss_and_gradients(compiled, torch.compile(compiled, backend="eager")(*arguments))
    assert all(map(torch.equal, again, expected))


@pytest.mark.parametrize("name", ["simclr", "simo"])
def test_a_method_that_stores_nothing_needs_no_index(name):
    (without, views), (numbered, _) = small_method(name), small_method(name)
    step = without.loss(views)
    actual = loss_and_gradients(without, step)
    expected = loss_and_gradients(numbered, numbered.loss(views, cases.INDEX))
    assert all(map(torch.equal, actual, expected))
    without.after_step(None, step)


@pytest.mark.parametrize("neighbours", ["none", "k"])
def test_clusters_of_the_training_images_need_an_index(neighbours):
    method, views = small_method("simclr", cases.config_of("ring" if neighbours == "k" else "outside", neighbours))
    method.loss(views, cases.INDEX)
    with pytest.raises(InputError, match="index is a NoneType; give the images' numbers among the training images"):
        method.loss(views)


def test_a_critic_scores_the_pairs_and_learns():
    method = cases.method_of(changed("ir", critic="mlp-1"), cases.config_of("ring"))
    queries = plain_embeddings(cases.VIEWS[cases.Given][0], method.encoder.weight)
    scores = method.critics[0](queries, method.banks[0].rows).every(None)[0]
    expected = plain_of(method.contrasts[0], cases.PROGRESS, scores, cases.INDEX, self_index=cases.INDEX)
    # A constant that the last layer adds to every score has no gradient except rounding.
    leaves = [weight for weight in method.critics[0].parameters() if weight.ndim == 2]
    assert_same(method.loss(cases.VIEWS[cases.Given], cases.INDEX, cases.PROGRESS).estimate, expected, *leaves)


# --- stored embeddings --------------------------------------------------------------------------------


@each_encoder
@pytest.mark.parametrize("name", ["ir", "moco", "simo"])
def test_embeddings_are_stored_and_keys_follow_once_backward_has_read_the_memory(name, encoder):
    method, views = cases.method_of(cases.PARAMS[name], encoder=encoder), cases.VIEWS[encoder]
    memory = [one.rows for one in getattr(method, "banks", ())] + [one.keys for one in getattr(method, "queues", ())]
    before = [one.clone() for one in memory]
    following = [] if name == "ir" else [*method.keys.encoder.parameters()]
    slow = [weight.clone() for weight in following]
    step = method.loss(views, cases.INDEX, cases.PROGRESS)
    step.estimate.loss.backward()
    assert all(map(torch.equal, memory, before)), "the loss does not write"
    new = cases.embedded(method.encoder, views[0]) if name == "ir" else cases.embedded(method.keys.encoder, views[1])
    with torch.no_grad():
        for weight in method.encoder.parameters():
            weight += 1
    method.after_step(cases.INDEX, step)
    for weight, old, fast in zip(following, slow, method.encoder.parameters(), strict=False):
        torch.testing.assert_close(weight, 0.9 * old + 0.1 * fast)
    for rows, old, stored in zip(memory, before, new, strict=False):
        expected = old.clone()
        if name == "ir":
            expected[cases.INDEX] = F.normalize(0.25 * old[cases.INDEX] + 0.75 * stored.detach(), dim=1)
        else:
            expected[: len(cases.INDEX)] = stored.detach()
        torch.testing.assert_close(rows, expected)
    newest = method.stored_embeddings(torch.tensor([38, 3]))
    if name == "ir":
        torch.testing.assert_close(newest, F.normalize(torch.cat(memory, dim=1), dim=1)[[38, 3]])
    elif name == "moco":
        torch.testing.assert_close(newest[1], F.normalize(torch.cat([one[0] for one in new]).detach(), dim=0))
        assert not newest[0].any(), "no queue holds a key of image 38"
    assert (method.stored is None) == (name != "ir")


@each_encoder
def test_the_banks_start_from_the_encoder_where_asked_and_at_random_otherwise(encoder):
    kept, filled = (
        cases.method_of(changed("ir", bank_start=start), encoder=encoder) for start in ("random", "encoder")
    )
    before = kept.stored.clone()
    parts = [cases.images_embedded(), cases.images_embedded().roll(1, dims=0)][: len(kept.banks)]
    joined = torch.cat(parts, dim=1) * len(parts) ** -0.5
    for method in (kept, filled):
        method.start(lambda: joined)
    assert torch.equal(kept.stored, before)
    torch.testing.assert_close([bank.rows for bank in filled.banks], parts)
    torch.testing.assert_close(filled.stored, joined)


@each_with_memory
def test_memories_and_negatives_of_two_networks_differ(name):
    method = cases.method_of(cases.PARAMS[name], cases.config_of("ring", negatives=30), cases.GivenPair)
    assert not torch.equal(*([bank.rows for bank in method.banks] if name == "ir" else [q.keys for q in method.queues]))
    assert not torch.equal(*(contrast.generator.get_state() for contrast in method.contrasts))


# --- clusters and warnings ----------------------------------------------------------------------------


@each_encoder
def test_each_network_s_clusters_are_those_of_the_bank_that_it_reads_anew_each_epoch(encoder):
    """The sampler's clusters follow its settings, the neighbours' clusters their own."""
    method = cases.method_of(cases.PARAMS["ir"], cases.config_of("outside", "k"), encoder)
    for epoch in (0, 1):
        method.before_epoch(epoch, cases.images_embedded)
        for contrast, bank in zip(method.contrasts, reversed(method.banks), strict=True):
            seed = derive(cases.SEED, "clusters", *filter(None, [contrast.name]), epoch)
            assert torch.equal(contrast.clusters, kmeans(bank.rows, 4, 3, 2, seed))
            assert torch.equal(contrast.neighbour_clusters, kmeans(bank.rows, 5, 3, 2, seed))


def test_groups_set_for_the_clusters_are_left_out_of_a_queue_s_negatives(monkeypatch):
    draws, draw = [], Cave.draw

    def record(sampler, scores, *others):
        draws.append((scores, draw(sampler, scores, *others)))
        return draws[-1][1]

    monkeypatch.setattr(Cave, "draw", record)
    cave = replace(cases.CAVE, outer=1.0, runs=1)
    method, video = cases.method_of(cases.PARAMS["moco"], cases.config_of(cave)), torch.arange(cases.IMAGES) // 10
    draws.clear()  # draws of the trial on made-up scores
    method.contrasts[0].clusters.fill_(-1)  # as before the first epoch
    with pytest.raises(InputError, match=r"Cave or the neighbours need clusters .*; call the method's before_epoch"):
        method.loss(cases.VIEWS[cases.Given], cases.INDEX)
    method.contrasts[0].clusters.copy_(video)
    method.loss(cases.VIEWS[cases.Given], cases.INDEX)
    [(scores, negatives)] = draws
    for image, marked in zip(cases.INDEX, negatives.marked(scores), strict=True):
        other = [bool(of < 0 or video[of] != video[image]) for of in method.queues[0].images]
        left_out = sum(other) - int(marked.sum())
        assert not any(negative and not allowed for negative, allowed in zip(marked, other, strict=True))
        assert left_out in (0, 1), "of a query without a key in the queue, the ball leaves out the last rank"


records = []


class Asking(Uniform):
    """Records the scores and the clusters of its draws."""

    clustering = "images"

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        records.append((scores, clusters))
        return super().draw(scores, self_index, k, generator)


@pytest.mark.parametrize("name", cases.PARAMS)
def test_a_sampler_that_asks_is_told_the_image_of_each_column_and_of_each_query(name):
    setting = Setting(cases.config_of(Asking()), cases.IMAGES, cases.IMAGES, cases.QUEUE, cases.SEED, cases.CPU)
    records.clear()  # draws of the trial on made-up scores
    params, encoder = cases.PARAMS[name], cases.Given(torch.Generator().manual_seed(2))
    method = params.method(encoder, params, setting).double()
    method.before_epoch(0, cases.images_embedded)  # clusters nothing: each image stays its own
    if name == "moco":
        method.queues[0].images[:9] = torch.tensor([7, 3, 40, -1, 0, 3, 22, 1, -1])
    loss = method.loss(cases.VIEWS[cases.Given], cases.INDEX).estimate.loss
    [(scores, clusters)] = records
    expected = {
        "ir": torch.arange(cases.IMAGES),
        "moco": torch.tensor([7, 3, 40, -1, 0, 3, 22, 1, -1] + [-1] * (cases.QUEUE - 9)),
        "simclr": cases.INDEX.repeat(2)[torch.tensor([cases.columns_of(view) for view in range(2 * cases.BATCH)])],
        "simo": cases.INDEX,
    }[name]
    assert clusters.columns.tolist() == [expected.tolist()]
    assert clusters.queries.tolist() == [cases.INDEX.tolist() * method.queries_per_image]
    clusters.check(*scores.shape)
    plain = params.method(encoder, params, setting._replace(contrast=cases.config_of())).double()
    if name == "moco":
        plain.queues[0].images.copy_(method.queues[0].images)
    assert plain.loss(cases.VIEWS[cases.Given], cases.INDEX).estimate.loss == loss


def test_images_are_embedded_for_clusters_and_for_nothing_else():
    calls = []
    for sampler, neighbours, needed in (("ring", "s", 0), ("outside", "none", 1), ("uniform", "k", 1)):
        method = cases.method_of(cases.PARAMS["moco"], cases.config_of(sampler, neighbours))
        calls.clear()
        method.before_epoch(1, lambda: calls.append(1) or cases.images_embedded())
        assert len(calls) == needed


def test_one_process_has_nobody_to_synchronise_with_and_says_so(caplog):
    with caplog.at_level(logging.WARNING, "annulus"):
        assert cases.method_of(changed("simo", batch_norm="shuffle")).keys.groups == 2
        assert caplog.messages == []
        assert cases.method_of(cases.PARAMS["simo"]).keys.groups is None
        [message] = caplog.messages
        assert "batch_norm 'sync' of SiMo has no other process to synchronise with; in one process it is" in message
