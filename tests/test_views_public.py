"""`annulus.views` as other programs use it: names, examples, sets and error sentences."""

import doctest
import importlib
import os
import pkgutil
import subprocess

import pytest
import torch
import warm
import yaml
from by_path import ROOT
from settings import load
from without import run_without

from annulus import views
from annulus.errors import InputError
from annulus.views import SETS, augment, draw_views
from annulus_lab.config.file import checked


def test_the_sets_are_those_of_params_yaml_as_committed():
    """A user's own sets and uncommitted edits do not fail this test."""

    def library_sets(params):
        return {name: views for name, views in params.view_sets.items() if name in SETS}

    if library_sets(load({})) != SETS:
        committed = subprocess.check_output(["git", "show", "HEAD:params.yaml"], cwd=ROOT, text=True)
        assert library_sets(checked(yaml.safe_load(committed), "HEAD:params.yaml")) == SETS


def test_a_name_is_its_set_for_one_view_and_for_several(generator):
    images = torch.randint(0, 256, (4, 3, 40, 40), generator=generator, dtype=torch.uint8)
    by_name, by_set = (augment(images, kind, 32, generator.manual_seed(1)) for kind in ("moco-v2", SETS["moco-v2"]))
    assert torch.equal(by_name, by_set)
    (by_name,), (by_set,) = (
        draw_views(images, kind, 32, [generator.manual_seed(1)]) for kind in ("patches", SETS["patches"])
    )
    assert torch.equal(by_name, by_set)


def test_every_public_name_has_its_docstring_and_every_example_runs():
    assert set(views.__all__) <= set(dir(views))
    for name in set(views.__all__) - {"SETS"}:
        assert getattr(views, name).__doc__, name
    attempted = 0
    for module in pkgutil.iter_modules(views.__path__, "annulus.views."):
        if module.name != "annulus.views.kernels":  # needs Triton, and has no example
            failures, tests = doctest.testmod(importlib.import_module(module.name))
            assert not failures, module.name
            attempted += tests
    assert attempted > 15


def test_it_needs_torch_numpy_jaxtyping_and_annotated_types_alone(tmp_path):
    absent = ["pydantic", "yaml", "torchvision", "safetensors", "scipy", "sklearn", "PIL", "dvc", "mlflow", "faiss"]
    code = "import torch, annulus.views as v; print(len(v.augment(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), "
    done = run_without(absent, ["-c", code + "'infomin', 32, torch.Generator())))"], tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr


# Error sentence and call. The calls run without the tests' own checks of types and shapes.
MISTAKES = """
images are torch.float32 of shape (2, 3, 32, 32): give uint8 RGB of | augment(floats, "standard", 32, random)
images are torch.uint8 of shape (3, 32, 32): give uint8 RGB         | augment(images[0], "standard", 32, random)
images are torch.uint8 of shape (2, 1, 32, 32): give uint8 RGB      | augment(images[:, :1], "standard", 32, random)
images are a list: give uint8 RGB of shape (batch, 3, height, width | augment([1], "standard", 32, random)
views: 'zzz' is none of gentle, standard, strong, crop, colour, moco-v2, | augment(images, "zzz", 32, random)
views is a dict; give an annulus.views.ViewSet, or a name: gentle,  | augment(images, {}, 32, random)
size 0: give the side of a view in pixels, a whole number from 1 on | augment(images, "standard", 0, random)
size 32.0: give the side of a view in pixels, a whole number from 1 | augment(images, "standard", 32.0, random)
generator is a NoneType: views are drawn on the CPU, the same for   | augment(images, "standard", 32, None)
generator is a int: views are drawn on the CPU, the same for every  | solarize(floats, 0)
a centre crop of 48 x 48 does not fit images of 32 x 32 pixels      | augment(images, "none", 48, random)
a centre crop of 48 x 48 does not fit images of 32 x 32 pixels      | center_view(images, 48)
images are torch.float32 of shape (2, 3, 32, 32): give uint8 RGB of | center_view(floats, 32)
size 0: give the side of a view in pixels, a whole number from 1 on | center_view(images, 0)
generators []: give a list of torch.Generator(), one for each view  | draw_views(images, "crop", 16, [])
generators <torch._C.Generator object at                            | draw_views(images, "crop", 16, random)
images are torch.float32 of shape (2, 3, 32, 32): give uint8 RGB of | draw_views(floats, "patches", 16, [random] * 2)
offset 9 puts the second patch of 24 pixels outside of images of 32 | draw_views(images, far, 24, [random] * 2)
generator is a NoneType: views are drawn on the CPU, the same for   | draw_views(images, far, 16, [None])
size '8': give the side of a view in pixels, a whole number from 1  | draw_views(images, far, "8", [random] * 2)
sizes are torch.float32 of shape (2, 2): give int64 of shape (2, | draw_views(images, far, 8, [random], sizes=own / 2)
sizes are torch.int64 of shape (1, 2): give int64 of shape (2, 2)  | draw_views(images, far, 8, [random], sizes=own[:1])
sizes from [32, 20] to [32, 40] (height, width) of images (32, 32): | draw_views(images, far, 8, [random], sizes=own)
torch.uint8 of shape (2, 3, 32, 32): give an operator float views   | solarize(images, random)
torch.float32 of shape (3, 32, 32): give an operator float views of | solarize(floats[0], random)
needs scale_min <= scale_max, got 0.5 and 0.1 | Crop(scale_min=0.5, scale_max=0.1, ratio_min=1.0, ratio_max=1.0)
needs sigma_min <= sigma_max, got 2 and 1                           | Blur(probability=0.5, sigma_min=2, sigma_max=1)
jitter is a float; give annulus.views.ColourJitter(...), or None    | ViewSet(jitter=0.5)
operators['dark'] is a function; give an annulus.views.Operator    | ViewSet(operators={"dark": lambda view: 0 * view})
operators is a list; give a mapping of names to annulus.views.Opera | ViewSet(operators=[solarize])
a set with patches makes several views of each image together; call | augment(images, "patches", 16, random)
sizes are torch.int64 of shape (1, 2): give int64 of shape | augment(images, "crop", 16, random, sizes=own[:1])
sizes are a list: give int64 of shape (2, 2) on the CPU, height and | augment(images, "crop", 16, random, sizes=[[8]])
sizes are torch.int16 of shape (2, 2): give int64 of | augment(images, "crop", 16, random, sizes=own.short())
sizes from [32, 20] to [32, 40] (height, width) of images (32, 32): | augment(images, "crop", 16, random, sizes=own)
sizes from [0, 0] to [0, 0] (height, width) of images (32, 32): giv | center_view(images, 8, torch.zeros_like(own))
Forgets.apply gives a NoneType for torch.float32 of shape (32, 3,   | ViewSet(operators={"forgets": forgets})
views from 0 to 255; an operator takes RGB in [0, 1]: divide 0..255 | solarize(floats + 255 * torch.eye(32), random)
views from nan to nan; an operator takes RGB in [0, 1]: divide      | solarize(floats / 0, random)
flip 1.5: give a number from 0 to 1                                 | ViewSet(flip=1.5)
grayscale None: give a number from 0 to 1                           | ViewSet(grayscale=None)
probability 20: give a number from 0 to 1                           | Solarize(probability=20, threshold=0.5)
"""
PROGRAM = """
import sys
import pytest
import torch
from annulus.errors import InputError
from annulus.views import *
images, random = torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.Generator()
floats, solarize, far = images / 255, Solarize(probability=0.2, threshold=0.5), ViewSet(patches=Patches(offset=9))
own = torch.tensor([[32, 20], [32, 40]])
class Forgets(Solarize):
    def apply(self, view, parameters):
        super().apply(view, parameters)
forgets = Forgets(probability=0.2, threshold=0.5)
for call in sys.argv[1:]:
    try:
        print(eval(call))
    except InputError as error:
        print(error)
"""


def test_a_mistake_is_a_sentence():
    sentences, calls = zip(*(line.split("|") for line in MISTAKES.strip().splitlines()), strict=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [warm.folder() / "python", "-c", PROGRAM, *map(str.strip, calls)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    for sentence, output in zip(sentences, done.stdout.splitlines(), strict=True):
        assert output.startswith(sentence.strip()), output


class OwnImages(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, place):
        images = torch.arange(4096 * 3, dtype=torch.int32).remainder(256).to(torch.uint8).view(1, 3, 64, 64)
        return augment(images, "crop", 32, torch.default_generator)[0]


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_the_generator_of_a_worker_differs_by_worker_and_by_epoch(context):
    seeded = torch.Generator().manual_seed(0)
    settings = {"num_workers": 2, "multiprocessing_context": context, "generator": seeded}
    loader = torch.utils.data.DataLoader(OwnImages(), batch_size=2, **settings)
    rows = torch.cat([view.flatten(1) for _ in range(2) for view in loader])
    assert len(rows.unique(dim=0)) == 8


def test_an_unknown_set_is_named_with_the_nearest(generator):
    images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    with pytest.raises(InputError, match=r"^views: 'standart' is none of gentle, .*; did you mean 'standard'\?$"):
        augment(images, "standart", 32, generator)
    with pytest.raises(InputError, match=r"^views: 'patch' is none of gentle, .*; did you mean 'patches'\?$"):
        draw_views(images, "patch", 8, [generator])
