"""The public interface: names, documentation, examples, error sentences, and imports without heavy modules."""

import ast
import doctest
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch
import warm
from by_path import ROOT

import annulus
from annulus.device.checks import Checks
from annulus.errors import InputError
from annulus_lab.report.public_page import PAGE, ROOMS, page

EXAMPLES = ROOT / "tests/examples"
OURS = ("annulus", *(f"annulus.{room}" for room in ROOMS))
NAMES = [f"{module}.{name}" for module in OURS for name in import_module(module).__all__ if name not in ROOMS]


def find(name):
    value = annulus
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def functions(name):
    """The function of that name, or a class's public methods and `__init__`."""
    value = find(name)
    if not inspect.isclass(value):
        return [value]
    own = [member for key, member in vars(value).items() if not key.startswith("_") and inspect.isfunction(member)]
    return [*filter(inspect.isfunction, [value.__init__]), *own]


def docstrings(name):
    """Docstrings of a function, or of a class and its public members, by member."""
    value = find(name)
    if isinstance(value, Mapping):
        return {}
    members = vars(value).items() if inspect.isclass(value) else ()
    public = {key: getattr(value, key) for key, _ in members if key == "__init__" or not key.startswith("_")}
    return {key: one.__doc__ for key, one in {"": value, **public}.items() if isinstance(one.__doc__, str)}


def test_the_page_lists_the_public_names():
    assert page() == PAGE.read_text(encoding="utf-8"), "run `make tables`"
    assert not re.search(r"\|---\|---\|\n(?!\|)", page()), "a table without names"
    assert set(annulus.__all__) <= set(dir(annulus))
    assert set(annulus.evals.__all__) <= set(dir(annulus.evals))
    with pytest.raises(AttributeError, match="module 'annulus' has no attribute 'ring'"):
        annulus.ring  # noqa: B018


@pytest.mark.parametrize("module", OURS)
def test_the_examples_in_the_docstrings_run(module):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner, parser = doctest.DocTestRunner(verbose=False, optionflags=options), doctest.DocTestParser()
    for name in (each for each in NAMES if each.rpartition(".")[0] == module):
        texts = docstrings(name)
        assert module == "annulus.views" or any(">>>" in text for text in texts.values()), f"{name} has no example"
        for key, text in texts.items():
            globs = {"annulus": annulus, "torch": torch, "nn": torch.nn}
            printed = io.StringIO()
            failed, _ = runner.run(parser.get_doctest(text, globs, f"{name}.{key}", None, 0), out=printed.write)
            assert failed == 0, printed.getvalue()


def test_a_public_name_is_documented_and_typed():
    for name in NAMES:
        if isinstance(find(name), Mapping):
            continue
        assert inspect.getdoc(find(name)), f"{name} has no docstring"
        for function in functions(name):
            called, known = function.__qualname__, function.__annotations__
            untyped = [each for each in inspect.signature(function).parameters if each not in ("self", *known)]
            assert not untyped, f"{called} does not say the type of {untyped}"
            assert "return" in known, f"{called} does not say what it returns"
            assert function.__name__ == "__init__" or inspect.getdoc(function), f"{called} has no docstring"


# Files of the public rooms that only the pipeline and `annulus export` call.
NOT_CALLED_BY_A_LOOP = {
    "encoders/libraries.py",
    "encoders/rebuilt.py",
    "evals/headlines.py",
    "evals/plane.py",
    "views/learned.py",
    "views/splits.py",
}
KEY = r"\b(scales|datasets|methods|samplers|neighbour_sets|view_sets|linear|knn)\.[\w.]+"
FILE_KEY = re.compile(rf"params\.yaml|{KEY}|\bnull\b|-S |dvc|stage")


def sentences(path):
    """Line and text of the strings in calls, returns and assignments, without hints for users of a checkout."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Return | ast.Assign)]
    texts = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Constant | ast.JoinedStr)]
    for text in texts:
        parts = text.values if isinstance(text, ast.JoinedStr) else [text]
        sentence = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
        yield text.lineno, re.sub(r"\(in a checkout of annulus[^)]*\)", "", sentence)


def test_a_sentence_of_the_library_names_arguments_and_no_keys_of_a_file():
    """A user's own loop has no params.yaml. An argument's name is the last word of its key."""
    library = ROOT / "src/annulus"
    files = {path.relative_to(library).as_posix(): path for room in ROOMS for path in (library / room).glob("*.py")}
    assert files.keys() >= NOT_CALLED_BY_A_LOOP
    faults = [
        f"{name}:{line}: {sentence}"
        for name, path in sorted(files.items())
        if name not in NOT_CALLED_BY_A_LOOP
        for line, sentence in sentences(path)
        if " " in sentence and FILE_KEY.search(sentence)
    ]
    assert not faults, "\n".join(faults)


def run_python(python, code, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_mistake_in_a_public_function_is_a_sentence():
    scores, generator = torch.zeros(2, 40), torch.Generator()
    for inner, outer in ((0.5, 0.1), (0.1, 1.5), (-0.5, 0.5)):
        with pytest.raises(InputError, match="are not the borders of a ring; give shares of the memory"):
            annulus.negatives.ring(scores, torch.arange(2), inner, outer, 4, generator)
    ring = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.1, outer=0.5), None, annulus.bounds.InfoNCE(), 4)
    contrast = annulus.Contrast(ring, images=40, seed=0, device=torch.device("cpu"))
    with pytest.raises(InputError, match="no positive: give `positive`, its score, or `self_index`, the column of"):
        contrast(scores, torch.arange(2))
    with pytest.raises(InputError, match=r"rate 1\.5: an update keeps this share of the old row; give 0 or more"):
        annulus.MemoryBank(4, 2, 1.5, generator)
    with pytest.raises(InputError, match=r"nowhere\.safetensors or its JSON is missing"):
        annulus.load_encoder("nowhere.safetensors")


# The start of each message, and the call. The calls run without the tests' own checks of types and shapes.
MISTAKES = """
scores of shape (40,) and torch.float32: give         | ring(scores[0], own, 0.1, 0.5, 4, random)
scores of shape (2, 40) and torch.int32: give         | ring(scores.int(), own, 0.1, 0.5, 4, random)
self_index of shape (3,) and torch.int64: give        | ring(scores, torch.arange(3), 0.1, 0.5, 4, random)
self_index of shape (2,) and torch.float32: give      | ring(scores, own.float(), 0.1, 0.5, 4, random)
self_index of shape (2, 1, 1) and torch.int64: give   | ring(scores, own[:, None, None], 0.1, 0.5, 4, random)
0 negatives: give                                     | uniform(scores, own, 0, random)
2.5 negatives: give                                   | cave(scores, own, 0.5, None, 2.5, random)
'some' negatives: give                                | ball(scores, own, 0.1, "some", random)
generator None: negatives are drawn from              | ball(scores, own, 0.1, 4, None)
-1 negatives: give                                    | ContrastConfig(Ring(inner=0.1, outer=0.5), None, InfoNCE(), -1)
positives of shape (2,) and negatives of shape (2, 40): give       | infonce(scores[:, 0], scores)
positives of shape (1, 1) and negatives of shape (2, 40): give     | infonce(scores[:1, :1], scores)
positives of shape (2, 1) and negatives of shape (2,): give        | infonce(scores[:, :1], scores[:, 1])
positives of shape (2, 0) and negatives of shape (2, 40): give     | infonce(scores[:, :0], scores)
positives on meta, but negatives on cpu: move one by .to(device)   | infonce(scores[:, :1].to("meta"), scores)
positives of shape (2, 1) and negatives of shape (2, 0): give      | cpc(scores[:, :1], scores[:, :0], 1.0)
positive is of shape (2, 1); give one score for each query         | mlcpc(scores[:, :1], scores, 1.0)
a query has no negatives: all of its scores are -inf, and alpha    | cpc(scores[:, :1], scores - inf, 1.0)
positives of shape (1, 40) and negatives of shape (2, 40): give    | MLCPC(1.0, 1.0).loss(scores[:1], scores, 0.0)
scores of shape (0, 40) and torch.float32: give       | ring(scores[:0], own[:0], 0.1, 0.5, 4, random)
scores is a list; give a tensor                       | ring(scores.tolist(), own, 0.1, 0.5, 4, random)
self_index is a list; give a tensor                   | uniform(scores, [0, 1], 4, random)
self_index holds -1 to 1; give own columns from 0 to 39 (a  | uniform(scores, torch.tensor([-1, 1]), 4, random)
self_index holds 0 to 40; give own columns from 0 to 39     | ring(scores, torch.tensor([0, 40]), 0.1, 0.5, 4, random)
self_index holds -2 to 1; give own columns from 0 to 39, or -1 | uniform(scores, torch.tensor([[-2], [1]]), 4, random)
self_index holds a column of a query twice; give each | uniform(scores, torch.tensor([[3, 3], [-1, -1]]), 4, random)
self_index holds a column of a query twice; give each | uniform(scores, torch.tensor([[0, 0], [-1, -1]]), 4, random)
inner 0.1 and outer None are not the borders of a ring | ring(scores, own, "0.1", None, 4, random)
self_index of shape (2,) and torch.bool: give         | uniform(scores, own > 0, 4, random)
self_index of shape (2,) and torch.uint8: give        | uniform(scores, own.byte(), "all", random)
progress 50 of annealing: give a share, 0 (the whole  | Ring(inner=0.1, outer=0.5).draw(scores, own, 4, random, 50)
clusters is a NoneType; give annulus.negatives.Clust  | cave(scores, own, 0.5, None, 2, random)
keep 'insde': give outside or inside | cave(scores, own, 0.5, Clusters(ids, ids[:, :2]), 2, random, "insde")
clusters of columns of shape (1, 40) and of queries | cave(scores, own, 0.5, Clusters(ids, ids), 2, random)
clusters of columns of shape (1, 39) and | cave(scores, own, 0.5, Clusters(ids[:, 1:], ids[:, :2]), 2, random)
clusters of columns of shape () and of queries        | cave(scores, own, 0.5, Clusters([[0]], [[0]]), 2, random)
negatives are Selection; give floating-point scores | infonce(scores[:, :1], ring(scores, own, 0, 0.5, 4, random))
positives are list; give floating-point scores        | infonce([1.0], scores)
negatives are torch.int64; give floating-point        | cpc(scores[:, :1], scores.long(), 1.0)
positives are Selection; give floating-point          | mlcpc(ring(scores, own, 0.1, 0.5, 4, random), scores, 1.0)
alpha is '1'; give a number above 0                   | cpc(scores[:, :1], scores, "1")
eqco_alpha '9': give a number from 1e-09 to           | InfoNCE("9")
sampler is a str; give one such as annulus.negatives.Ring | ContrastConfig("ring", None, InfoNCE(), 4)
bound is a function; give one such as annulus.bounds.InfoNCE(), or your own, of | ContrastConfig(bound=infonce)
sampler is a function; give one such as annulus.negatives.Ring(inner=0.01, outer=0.1), or your | ContrastConfig(ring)
sampler is the class Ring; give one such as annulus.  | ContrastConfig(Ring)
clustering of Own is 'image'; give "images" or "classes" | ContrastConfig(own_sampler)
neighbours is a str; give one such as annulus.negativ | ContrastConfig(neighbours="s")
rate 0.5: an update keeps this share                  | MemoryBank(4, 2, "0.5", random)
a memory of 4.0 rows of 2 numbers holds nothing       | KeyQueue(4.0, 2, random)
keys of mean squared length 16; a memory holds unit vectors: give torch.nn. | KeyQueue(4, 2, random).push(4 * unit, own)
embedding of mean squared length 16; a memory holds   | MemoryBank(4, 2, 0.5, random).update(own, 4 * unit)
index holds 0 to 1; give each image's row in this memory of 1 | MemoryBank(1, 2, 0.5, random).update(own, unit)
index holds -1 to 0; give each image's row            | MemoryBank(4, 2, 0.5, random).update(own - 1, unit)
embedding is a Tensor and index a list; give two      | MemoryBank(4, 2, 0.5, random).update([0, 1], unit)
keys of shape (2, 2), index of shape (1,) and torch.int64: give a | KeyQueue(4, 2, random).push(unit, own[:1])
embeddings of shape (2, 2) do not fill a memory of (4, 2); give | MemoryBank(4, 2, 0.5, random).fill(unit)
embeddings are a list; give a tensor of floating-poi  | MemoryBank(2, 2, 0.5, random).fill([[1.0, 0.0]] * 2)
embeddings are torch.int64; give a tensor of floating | MemoryBank(2, 2, 0.5, random).fill(unit.long())
embedding of shape (2, 2), index of shape (2,) and torch.bool | MemoryBank(4, 2, 0.5, random).update(own > 0, unit)
keys_per_image 0: give a whole number, 1 or more      | KeyQueue(4, 2, random, keys_per_image=0)
a memory of 0 rows of 2 numbers holds nothing; give   | MemoryBank(0, 2, 0.5, random)
a memory of 4 rows of 0 numbers holds nothing; give   | KeyQueue(4, 0, random)
generator None: a memory's first rows are random      | KeyQueue(4, 2, None)
scores hold NaN for 1 of 2 queries; NaN has no rank   | ring(spoilt, own, 0, 1, 4, random)
index is a list; give a tensor                        | contrast(scores, [0, 1], self_index=own)
self_index is a list; give a tensor                   | contrast(scores, own, self_index=[0, 1])
scores are a list; give a tensor, a row per query     | contrast(scores.tolist(), own, self_index=own)
progress is a float; give annulus.Progress(training,  | contrast(scores, own, 0.5, self_index=own)
training (the share that is done) 37: give a number   | contrast(scores, own, annulus.Progress(37, 1.0), self_index=own)
training (the share that is done) 37: give a number   | MLCPC(10.0, 0.1).loss(scores[:, :1], scores, 37)
positive of shape (2, 1): give a score for each of 2  | contrast(scores, own, positive=scores[:, :1])
scores are a list; give the tensor of the selection  | ring(scores, own, 0, 1, 4, random).gather(scores.tolist())
scores are of shape (3, 40); give the tensor of the   | ring(scores, own, 0, 1, 4, random).gather(scores[[0, 0, 1]])
temperature 0: give a number from 0.001 to 1,000      | by_hand(MoCo, temperature=0)
momentum nan: give a number from 0 below 1            | by_hand(MoCo, momentum=nan)
critic 'cosine': give one of dot, bilinear,           | by_hand(IR, critic="cosine")
shuffle_groups 1.5: give a whole number from 1 to     | by_hand(MoCo, shuffle_groups=1.5)
images 0: give how many, such as len(images), 1 or m  | by_hand(SimCLR, images=0)
images a Tensor: give how many, such as len(images),  | by_hand(SimCLR, images=square)
seed [0, 1]: give a whole number, 0 or more           | annulus.probe_features(known, known, seed=[0, 1])
seed -1: give a whole number, 0 or more               | annulus.build_encoder(config(), seed=-1)
seed None: give a whole number, 0 or more             | Contrast(ContrastConfig(), 40, None, torch.device("cpu"))
Cave or the neighbours need clusters of the training  | by_hand(IR, contrast=caves, dim=3).loss([unit], own)
embeddings to cluster are (2, 2), or not finite; give | by_hand(IR, contrast=caves).contrasts[0].cluster(unit, 0)
embed() gives NoneType; give the embeddings (9, d) of | by_hand(MoCo, contrast=caves).before_epoch(0, lambda: None)
embed is a Tensor; give a function of the embeddings  | by_hand(MoCo, contrast=caves).before_epoch(0, unit)
params is a int; give annulus.KnnSettings(...)        | annulus.evaluate_knn(known, known, 20)
params is a LinearBudget; give annulus.LinearSetting  | annulus.probe_features(known, known, annulus.LinearBudget())
scale is a int; give annulus.LinearBudget(...)        | annulus.probe_features(known, known, scale=10)
train is a Tensor; give annulus.Features, as extract  | annulus.evaluate_knn(unit, own)
layers are a Tensor; give a mapping, such as {"poole  | Features(unit, own, "ab")
difference is a float; give an annulus.Interval, as   | annulus.verdict(2.0)
split 'lab': give annulus.views.ColourSplit("lab"), s | config(split="lab")
embedding_dim 0: give a whole number from 1 to 65,536 | config(embedding_dim=0)
mean (123.0, 117.0, 104.0): give 3 numbers of pixels  | annulus.build_encoder(config(mean=(123.0, 117.0, 104.0)), 0)
mean 0.5: give 3 numbers of pixels in [0, 1], one for | annulus.build_encoder(config(mean=0.5), 0)
std (0.5,): give 3 numbers of pixels in [0, 1], one f | annulus.build_encoder(config(std=(0.5,)), 0)
dim None: with a plain network, give the number of    | by_hand(SimCLR, dim=None)
encoder is a int; give a torch.nn.Module that embeds  | SimCLR.create(18, images=9)
encoder 'resnet18': give a torch.nn.Module, or a name | SimCLR.create("resnet18", images=9, dim=3)
this encoder has no dim; give annulus.ModuleEncoder(  | SimCLR.create(ModuleEncoder(network), images=9, dim=3)
contrast is a Ring; give annulus.ContrastConfig(      | by_hand(SimCLR, contrast=Ring(inner=0.1, outer=0.5))
the encoder gives 0 for all 4 views, which no step    | SimCLR.create(zeros, images=9, dim=3).loss([unit, unit], own)
the encoder gives 0 for all 2 views, which no step    | IR.create(zeros, images=9, dim=3).loss([unit], own)
the network's output is shape (4, 3) for 4 images;     | by_hand(SimCLR).loss([unit, unit], own)
views are a tensor; SimCLR takes a list of 2          | by_hand(SimCLR, dim=3).loss(unit, own)
views are 1 tensors; SimCLR takes a list of 2         | by_hand(SimCLR, dim=3).loss([unit], own)
views are 2 list; SimCLR takes a list of 2, each a vi | by_hand(SimCLR, dim=3).loss([[[0.0, 0.0]]] * 2, own)
views are uint8 and uint8; give floats in [0, 1], such as images.float() / 255 | by_hand(SimCLR).loss([square] * 2, own)
views are uint8; give floats in [0, 1], such as imag  | by_hand(IR).loss([square], own[:1])
views are uint8; give floats in [0, 1], such as imag  | by_hand(MoCo).loss([square / 255, square], own[:1])
views are int64; give floats in [0, 1], such as imag  | by_hand(SiMo).loss([unit, unit.long()], own)
views are uint8 and uint8; give floats in [0, 1], s   | PIRL.create(seeing, images=9).loss([square] * 2, own)
views are uint8 and uint8 and uint8; give floats in   | MoCoJigsaw.create(seeing, images=9).loss([square] * 3, own)
images are uint8; give floats in [0, 1], such as ima  | own_encoder(square)
images are a list; give floats in [0, 1], such as im  | own_encoder.embeddings_and_pooled([0.5])
views of 2 and 1 images, index of 2: give each image  | by_hand(SimCLR, dim=3).loss([unit, unit[:1]], own)
views of 2 and 2 images, index of 3: give each image  | by_hand(SimCLR, dim=3).loss([unit, unit], torch.arange(3))
views of 1 and 1 images, index of 1: give each image | by_hand(SimCLR, dim=3).loss([unit[:1]] * 2, own[:1])
views of 0 images, index of 0: give each image of the | by_hand(IR, dim=3).loss([unit[:0]], own[:0])
index holds 8 to 9; number the training images from 0 | by_hand(MoCo, dim=3, queue=4).loss([unit, unit], own + 8)
index holds image 1 2 times; negatives of SimCLR are  | by_hand(SimCLR, dim=3).loss([unit] * 2, own * 0 + 1)
index is torch.bool of 1 axes; give the images' numbe | by_hand(IR, dim=3).loss([unit], own > 0)
index is a NoneType; give the images' numbers among   | by_hand(IR, dim=3)([unit])
index is a NoneType; give the images' numbers among   | by_hand(MoCo, dim=3, queue=4)([unit, unit])
index is a list; give the images' numbers             | by_hand(SimCLR, dim=3).loss([unit, unit], [0, 1])
a jigsaw has a second head on the features before the | by_hand(PIRL)
a jigsaw has a second head on the features before the | by_hand(MoCoJigsaw)
k 2 with a bank of shape (2, 2) and queries of shape   | annulus.evals.search(unit, torch.ones(1, 3), 2)
k 1.0 with a bank of shape (2, 2) and queries         | annulus.evals.search(unit, unit, 1.0)
queries torch.float32 of shape (2,): give a tensor, a | annulus.evals.search(unit, unit[0], 1)
bank list: give a tensor, a row of real numbers       | annulus.evals.search([[1.0]], unit, 1)
queries torch.complex64 of shape (2, 2): give a te    | annulus.evals.search(unit, unit * 1j, 1)
pooled of train has shape (2, 3, 4, 4): kNN compares  | annulus.evaluate_knn(maps, maps)
pooled is complex64; give real numbers, such as torch | Features({"pooled": unit * 1j}, own, "ab")
the network's output is complex64; give a network of  | extract_features(lambda images: images.flatten(1) * 1j, square)
the head's output is complex64; give a head of real n | ModuleEncoder(network, 3, lambda x: x * 1j)(unit)
table [[1, 0], [1]]: give a table of numbers, each    | annulus.over_seeds_and_images([[1, 0], [1]])
head [['a']]: give a table of numbers, each seed's    | annulus.between_tables([["a"]], [[1]], True, True)
SimCLR or its network is created under torch.inferen  | torch.inference_mode()(by_hand)(SimCLR)
MoCo or its network is created under torch.inference  | MoCo.create(inferring, images=9, dim=3)
images are torch.int64 of shape (2,); give bytes, tor | extract_features(own_encoder, own)
images are a int; give a tensor and its labels, or ba | extract_features(own_encoder, 5)
images are batches, and labels beside them; give a te | extract_features(own_encoder, [(unit, own)], own)
a batch is a int; give batches (images, labels), as   | extract_features(own_encoder, [5])
a batch is of 1; give batches (images, labels), as a  | extract_features(own_encoder, [[unit]])
there is no batch of images; give one or more (an ite | extract_features(own_encoder, [])
labels are list; give a class number for each of 1 im | extract_features(own_encoder, square, [1])
labels are torch.int64 of shape (1,); give a class nu | extract_features(own_encoder, [(unit, own[:1])])
classes [0, 1]: give a name for each class, such as   | extract_features(own_encoder, square, own[:1], [0, 1])
classes 7: give a name for each class, such as ("cat" | extract_features(own_encoder, square, torch.tensor([0]), 7)
labels reach 4, but there are 2 classes; give all     | extract_features(own_encoder, square, torch.tensor([4]), "ab")
encoder is a int; give one of annulus.build_encoder   | extract_features(5, square)
encoder 'resnet18': give a torch.nn.Module, or a name | extract_features("resnet18", square)
pool is for a network or function; this encoder has   | extract_features(own_encoder, square, pool="mean")
pool 'max': give 'mean', 'first' or a function of the | ModuleEncoder(network, 3, pool="max")
the network's output is a dict without pooler_output; | ModuleEncoder(lambda images: {}, 3)(square / 9)
the network's output is a dict without last_hidden_st | ModuleEncoder(lambda images: {}, 3, pool="first")(square / 9)
layers ('pool',): give a list of pooled, embedding    | extract_features(own_encoder, square, layers=("pool",))
layers ('map',): give a list of pooled, embedding     | extract_features(own_encoder, square, layers=("map",))
the network's output is shape (1, 3, 4, 4) for 1 im | ModuleEncoder(torch.nn.ReLU(), 3, torch.nn.Flatten())(square / 9)
the head's output is shape (2, 3) for 2 images; give  | ModuleEncoder(torch.nn.Flatten(), 4, network)(unit)
encoder is a Linear; give one of annulus.build_encod  | annulus.save_encoder(network, "no.safetensors")
encoder is what torch.compile made; give | annulus.save_encoder(torch.compile(annulus.build_encoder(config(), 0)), "no")
head 'mpl': give one of linear, mlp, mlp-bn; did | EncoderConfig("resnet18", "cifar", "mpl", 4, 8, None, (0.5,), (0.5,))
stem 'cifr': give one of imagenet, cifar, patch16 | EncoderConfig("resnet18", "cifr", "mlp", 4, 8, None, (0.5,), (0.5,))
architecture 'resnet19': give one of resnet18 | EncoderConfig("resnet19", "cifar", "mlp", 4, 8, None, (0.5,), (0.5,))
table of shape (40,): give a table, a row of each see | annulus.over_seeds_and_images(scores[0])
values [[1.0]]: give a finite number of each seed     | annulus.over_seeds([[1.0]])
pooled has 2 rows, labels 1: give a row and a label   | Features({"pooled": unit}, own[:1], "ab")
labels are torch.int32 of 1 axes; give each image's   | Features({"pooled": unit}, own.int(), "ab")
classes range(0, 2): give a name for each class, such  | Features({"pooled": unit}, own, range(2))
labels from 0 to 1 with 1 classes: give each image    | Features({"pooled": unit}, own, "a")
mean (0.5, nan, 0.5): give 3 numbers of pixels in [0, | annulus.build_encoder(config(mean=(0.5, nan, 0.5)), 0)
std (1.0, -1.0, 1.0): give 3 numbers, 0 or more, one  | annulus.build_encoder(config(split=lab, std=(1, -1, 1)), 0)
mean (inf, 0.0, 0.0): give 3 numbers, one for each    | annulus.build_encoder(config(split=lab, mean=(inf, 0, 0)), 0)
colour space ['lab'] is none of lab,                  | annulus.views.ColourSplit(["lab"])
sigma inf of a frequency split is not a width; take more | annulus.views.FrequencySplit(inf)
sigma 'a' of a frequency split is not a width; take more | annulus.views.FrequencySplit("a")
all 2 columns are of a query's own image, so there is | uniform(scores[:, :2], torch.tensor([[0, 1]] * 2), 3, random)
config is a NoneType; give annulus.ContrastConfig(SAM | Contrast(None, 40, 0, torch.device("cpu"))
index is torch.float32 of 1 axes; give whole numbers, | contrast(scores, own.float(), self_index=own)
index holds -1 to 0; give numbers of the 40 training  | in_groups(scores, own - 1, self_index=own)
scores of shape (2, 39) for 2 queries and columns of 40 images; give | in_groups(scores[:, 1:], own, self_index=own)
scores of shape (2, 40) for 1 queries and columns of 40 | in_groups(scores, own[:1], positive=scores[0, :1])
scores of shape (2, 40) for 2 queries and columns of -1 | in_groups(scores, own, self_index=own, column_images=[0] * 40)
column_images holds 40 to 40; give numbers | in_groups(scores, own, self_index=own, column_images=ids[0] + 40)
views are a NoneType; SimCLR takes a list of 2        | by_hand(SimCLR, dim=3).loss(None, own)
train is a list; give annulus.Features, as extract_fe | annulus.probe_features([1], known)
test is a Tensor; give annulus.Features, as extract_  | annulus.probe_features(known, unit)
an image of the batch has more than 1 keys in the queue of 4; give `keys | twice_in(KeyQueue(4, 2, random, 1)).own(own)
colours change in place, without a gradient, and | jitter(torch.rand(2, 3, 8, 8, requires_grad=True), random)
images of 9 x 12 pixels: give a jigsaw square views   | jigsaw(torch.rand(2, 3, 9, 12), random, 2, slice(2))
[0.0, 1.0, 0.0]                                       | [*config(mean=(0, 1, 0), std=(1, 1, 1)).mean]
[1.0, 0.5]                                            | [*config(std=(numpy.float32(1), numpy.float64(0.5))).std]
1.0                                                   | annulus.views.FrequencySplit(1).sigma
validation_percent None: adaptive annealing by epochs | AdaptiveEpochAnnealing(0.1, 3).begin().after_epoch(None)
"""
PROGRAM = """
import sys
import numpy
import torch
import annulus
from math import inf, nan
from annulus import IR, Contrast, ContrastConfig, EncoderConfig, Features, KeyQueue, MemoryBank, MoCo, ModuleEncoder
from annulus import SimCLR
from annulus import extract_features
from annulus.bounds import MLCPC, InfoNCE, cpc, infonce, mlcpc
from annulus.errors import InputError
from annulus.methods import PIRL, MoCoJigsaw, SiMo
from annulus.negatives import AdaptiveEpochAnnealing, Cave, Clusters, Ring, Uniform, ball, cave, ring, uniform
from annulus.views.jigsaw import jigsaw
scores, own, random, unit = torch.zeros(2, 40), torch.arange(2), torch.Generator(), torch.eye(2)
contrast, network = Contrast(ContrastConfig(), 40, 0, torch.device("cpu")), torch.nn.Linear(2, 3)
own_encoder = ModuleEncoder(torch.nn.Flatten(), dim=48)
zeros = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Threshold(9.0, 0.0))
own_sampler = type("Own", (Uniform,), {"clustering": "image"})()
own_groups = type("Own", (Uniform,), {"clustering": "images"})()
square, spoilt = torch.zeros(1, 3, 4, 4, dtype=torch.uint8), scores.clone()
ids = torch.zeros(1, 40, dtype=torch.int64)
spoilt[0, 1] = nan
known = Features({"pooled": unit}, own, ("cat", "dog"))
maps = Features({"pooled": torch.ones(2, 3, 4, 4)}, own, ("cat", "dog"))
inferring = torch.inference_mode()(torch.nn.Linear)(2, 3)
caves = ContrastConfig(Cave(outer=0.5, clusters=2, runs=1, iterations=2, keep="outside"), negatives=2)
def config(**changes):
    whole = dict(architecture="convnet", stem="cifar", head="linear", embedding_dim=4, view_size=8, split=None)
    return EncoderConfig(**{**whole, "mean": (0.5,) * 3, "std": (0.5,) * 3, **changes})
lab, seeing = annulus.views.ColourSplit("lab"), annulus.build_encoder(config(), 0)
jitter = annulus.views.ColourJitter(probability=1.0, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
in_groups = Contrast(ContrastConfig(own_groups), 40, 0, torch.device("cpu"))
def twice_in(queue):
    queue.push(unit, own * 0)
    return queue
def by_hand(method, **settings):
    return method.create(network, **{"images": 9, "dim": 4, **settings})
for call in sys.argv[1:]:
    try:
        print(eval(call))
    except InputError as error:
        print(error)
"""


def test_a_wrong_shape_or_type_is_a_sentence_too():
    sentences, calls = zip(*(line.split("|") for line in MISTAKES.strip().splitlines()), strict=True)
    printed = run_python(warm.folder() / "python", PROGRAM, *map(str.strip, calls))
    for sentence, message in zip(sentences, printed.splitlines(), strict=True):
        assert message.startswith(sentence.strip()), message


def test_bounds_pass_nan_on_and_samplers_leave_it_to_the_library_s_own_loop():
    scores = torch.zeros(2, 40)
    scores[0, 1] = torch.nan
    bounds = annulus.bounds
    for loss in (bounds.infonce(scores[:, :1], scores[:, 1:]), bounds.cpc(scores[:, :1], scores[:, 1:], alpha=1.0)):
        assert loss.isnan()
    assert bounds.mlcpc(scores[:, 0], scores[:, 1:], alpha=1.0).isnan()
    draw = partial(annulus.negatives.uniform, scores, torch.arange(2), "all", torch.Generator())
    with pytest.raises(InputError, match="scores hold NaN for 1 of 2 queries"):
        draw()
    with Checks().put_off():  # the loop looks at its loss and names the images
        assert draw().gather(scores).isnan().any()


def test_a_function_is_not_hidden_by_its_module_and_importing_a_probe_loads_no_networks():
    """`annulus.bounds.infonce` names both. An import of the module must not replace the function by it."""
    code = (
        "import sys, annulus.evals.knn, annulus_lab.report.papers.metrics; "
        "print([name for name in sys.modules if name.startswith(('torchvision', 'annulus.encoders.encoder'))]); "
        "import annulus.bounds.infonce, annulus.methods.contrast; assert callable(annulus.bounds.infonce)"
    )
    assert run_python(sys.executable, code).strip() == "[]"


LATE = [annulus, annulus.encoders, annulus.evals, annulus.views]


@pytest.mark.parametrize("module", LATE, ids=lambda module: module.__name__)
def test_a_table_of_public_names_has_each_name_once_with_the_file_that_defines_it(module):
    """Type checkers read the same table."""
    lines = Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    values = {name: getattr(module, name) for name in module.__all__}
    homes = {
        name: "annulus" if name in ROOMS else getattr(one, "__module__", "annulus.views.sets")
        for name, one in values.items()
    }
    assert sorted(lines) == sorted(f"from {home} import {name} as {name}" for name, home in homes.items())
    assert {*module.__all__} <= {*dir(module)}


# With mypy's name for each mistake.
TYPED_MISTAKES = """
import torch
import annulus
scores, index, random = torch.zeros(2, 40), torch.arange(2), torch.Generator()
annulus.negatives.rings(scores, index, 0.1, 0.5, 4, random)  # attr-defined
annulus.negatives.ring(scores, index, 0.1, 0.5, "some", random)  # arg-type
annulus.MoCo.create(torch.nn.Flatten(), images=100, dim=16, tau=0.2)  # call-arg
loss: float = annulus.bounds.infonce(scores, scores)  # assignment
annulus.KnnSettings(k=20, temperature=0.07, layer="last")  # arg-type
"""
# Modules that torch imports and whose types no program here uses. They are half of the files that mypy would read.
UNREAD = """
[mypy]
[mypy-torch._inductor.*,torch._dynamo.*,torch._functorch.*,torch._export.*,torch._higher_order_ops.*,torch.ao.*]
follow_imports = skip
[mypy-torch.distributed.*,torch.distributions.*,torch.export.*,torch.fx.*,torch.onnx.*,torch.profiler.*]
follow_imports = skip
[mypy-IPython.*,matplotlib.*,PIL.*]
follow_imports = skip
"""


@pytest.mark.slow
def test_a_type_checker_finds_the_mistakes_of_a_program_and_nothing_else(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed; it comes with `make install`")
    mistakes = tmp_path / "mistakes.py"
    mistakes.write_text(TYPED_MISTAKES)
    (tmp_path / "mypy.ini").write_text(UNREAD)
    arguments = ["--strict", "--no-error-summary", "--cache-dir", str(tmp_path), "--hide-error-context"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mypy", *arguments, EXAMPLES / "typed_user.py", mistakes]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    expected = [
        (number, line.rpartition("# ")[2])
        for number, line in enumerate(mistakes.read_text().splitlines(), 1)
        if "  # " in line
    ]
    matches = [re.match(r"mistakes\.py:(\d+): error: .*\[([\w-]+)\]$", line) for line in errors]
    assert [each and (int(each[1]), each[2]) for each in matches] == expected, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_uses_the_interface_only(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 30
    nodes = list(ast.walk(ast.parse(text)))
    imported = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [line for line in imported if "annulus" in line] == ["import annulus"]
    used = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    used = {name.removesuffix(".create") for name in used if name.startswith("annulus.")}
    assert used <= {*NAMES, *OURS}
