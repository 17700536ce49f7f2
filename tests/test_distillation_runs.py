"""A student's training: the terms of its loss, the fixed teacher, its states, and refusals before the first step."""

import itertools
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from declared import ROOT

from annulus.datasets.shapes import draw_shapes
from annulus.errors import InputError
from annulus.files.images import ImageSet, load_images, save_images
from annulus.files.store import Resident
from annulus.running.checkpoint import Checkpoint
from annulus_lab.config.params import filled
from annulus_lab.studies.distillation import distillation_runs
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.saved import load_classifier, save_classifier
from annulus_lab.studies.distillation.classifiers.training import FitResult, train
from annulus_lab.studies.distillation.contrast import build_contrast
from annulus_lab.studies.distillation.distillation_params import ContrastParams, DistillationImagesParams, WeightParams
from annulus_lab.studies.distillation.distillation_runs import ClassifierTask
from annulus_lab.studies.distillation.distillation_study import DistillationParams, loss_settings
from annulus_lab.studies.distillation.memories import ContrastiveDistillation
from annulus_lab.studies.distillation.objective import Distillation
from annulus_lab.studies.shared.study import OwnStudy

CPU = torch.device("cpu")
STUDY = ROOT / "stages/distillation/params.yaml"
FIT = {"epochs": 2, "batch_size": 10, "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 5e-4}
FIT |= {"schedule": {"at": [0.5], "factor": 0.1}, "padding": 1, "flip": 0.5}


@pytest.fixture
def images(tmp_path):
    """A folder with 40 training and 20 test images of 4 classes."""
    for key, (split, count) in enumerate({"train": 40, "test": 20}.items()):
        rows = torch.arange(count)
        pixels = Resident(draw_shapes(rows.numpy(), 8, key))
        save_images(tmp_path / f"{split}.safetensors", ImageSet(pixels, rows % 4, rows, tuple("abcd")))
    return tmp_path


def whole(study):
    return study.read(DistillationParams)


def task_settings(loss, **weights):
    settings = loss_settings(OwnStudy(STUDY), loss)
    settings["contrast"] |= {"negatives": 8, "dim": 4}
    settings["weights"] |= weights
    return {"network": "resnet8", "fit": FIT} | settings


def teacher_file(folder, classes=4, name="resnet8"):
    teacher = build_classifier(name, classes, seed=1)
    for layer in teacher.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(layer.running_mean, -0.1, 0.1)
    save_classifier(teacher, folder / "teacher.safetensors")
    return folder / "teacher.safetensors"


def test_the_loss_is_labels_answers_and_contrast_weighed_and_the_teacher_stays_as_it_is(images):
    torch.manual_seed(0)
    teacher = load_classifier(teacher_file(images))
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    views, rows, labels = torch.rand(6, 3, 8, 8), torch.arange(6), torch.arange(40) % 4
    params = filled(ContrastParams, task_settings("mlcpc-005")["contrast"])
    contrast = ContrastiveDistillation((64, 64), labels, params, build_contrast(params), 0, 4)
    student = build_classifier("resnet8", 4, seed=0)
    state = deepcopy(contrast.state_dict())
    both = student.features(views), teacher.features(views)
    weights = WeightParams(labels=0.3, answers=0.5, answers_temperature=2.0, contrast=0.7)
    expected = 0.7 * contrast(*both, rows, labels[rows]).loss + 0.3 * F.cross_entropy(student(views), labels[rows])
    softened = F.log_softmax(student(views) / 2, 1), F.softmax(teacher(views) / 2, 1)
    expected = expected + 0.5 * 4 * F.kl_div(*softened, reduction="batchmean")
    contrast.load_state_dict(state)  # the draws start again
    distillation = Distillation(student, teacher.train(), weights, contrast)
    loss = distillation.loss(views, rows, labels[rows])
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(head.weight.grad.abs().sum() > 0 for head in contrast.heads)
    assert {*map(id, distillation.parameters())} == {*map(id, contrast.heads.parameters())}, "the teacher's map too"
    distillation.after_step(rows)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    for name, tensor in teacher.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert not teacher.training


def test_a_task_s_seed_decides_everything_and_its_network_normalises_by_the_training_images(images, monkeypatch):
    calls = []
    monkeypatch.setenv("DVC_ROOT", str(images))
    monkeypatch.setattr(distillation_runs, "train", lambda *arguments: calls.append(arguments) or FitResult({}, [], {}))
    task = ClassifierTask(task_settings("crd"), images, teacher_file(images))
    for seed in (0, 1):
        task.run(seed, CPU)
    assert [seed for *_, seed, _, _ in calls] == [0, 1]
    for tensors in (
        [next(classifier.parameters()) for classifier, *_ in calls],
        [bank.rows for _, objective, *_ in calls for bank in objective.contrast.banks],
    ):
        assert not any(one.equal(other) for one, other in itertools.combinations(tensors, 2))
    pixels = load_images(images / "train.safetensors").images.pixels.transpose(0, 1).flatten(1).double() / 255
    for classifier, *_ in calls:
        torch.testing.assert_close(classifier.mean.flatten().double(), pixels.mean(dim=1))
        torch.testing.assert_close(classifier.std.flatten().double(), pixels.std(dim=1, correction=0))


def test_a_killed_run_goes_on_with_the_same_bits_and_a_teacher_file_is_only_read(images, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(images / "here"))
    teacher = teacher_file(images)
    content, states = teacher.read_bytes(), []
    task = ClassifierTask(task_settings("crd"), images, teacher)
    whole, fitted = task.run(0, CPU)
    monkeypatch.setenv("DVC_ROOT", str(images / "elsewhere"))
    save = Checkpoint.save

    def save_and_kill(self, state):
        save(self, state)
        states.append(state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_kill)
        with pytest.raises(KeyboardInterrupt):
            task.run(0, CPU)
    resumed, again = task.run(0, CPU)
    assert len(states) == 1
    torch.testing.assert_close(whole.state_dict(), resumed.state_dict(), rtol=0, atol=0)
    assert fitted.history == again.history
    assert teacher.read_bytes() == content


def test_an_edit_while_seeds_wait_for_a_worker_changes_no_state(images, monkeypatch):
    """Otherwise a later seed's state would be of the edited code, and a killed stage would go on with it."""
    edits = itertools.count()
    monkeypatch.setattr(distillation_runs, "hash_code", lambda module: {"edited": str(next(edits))})
    task = ClassifierTask(task_settings("kd"), images)
    assert task.checkpoint(0, CPU).folder == task.checkpoint(0, CPU).folder


def test_another_seed_in_the_list_changes_no_state_of_the_rest(images):
    one, both = (
        ClassifierTask(task_settings("kd") | {"seeds": seeds}, images).checkpoint(0, CPU) for seeds in ([0], [0, 1])
    )
    assert one.folder == both.folder


@pytest.mark.parametrize("batch_size", [10, 13, 14])
def test_memories_know_the_steps_of_an_epoch_also_where_a_last_image_is_left_out(images, batch_size):
    """Memories are clustered when an epoch starts: of 40 images after 4, 3 (of 13; one image is unused) or 3 steps."""
    teacher, train_images = teacher_file(images), load_images(images / "train.safetensors")
    fit = filled(FitParams, FIT | {"batch_size": batch_size})
    classifier = build_classifier("resnet8", 4, seed=0)
    objective = ClassifierTask(task_settings("mlcpc-005"), images, teacher).objective(
        classifier, train_images, fit, 0, CPU
    )
    train(classifier, objective, train_images, load_images(images / "test.safetensors"), fit, 0, CPU)
    assert objective.contrast.steps == fit.epochs * objective.contrast.epoch_steps


def test_a_teacher_of_other_classes_or_of_another_network_is_refused_before_the_first_step(images, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(images))
    teacher = teacher_file(images, classes=5)
    with pytest.raises(InputError, match="resnet8 scores 5 classes, and the training images have 4"):
        ClassifierTask(task_settings("kd"), images, teacher).run(0, CPU)
    other = images / "other"
    other.mkdir()
    teacher.with_suffix(".json").write_bytes(teacher_file(other, name="resnet14").with_suffix(".json").read_bytes())
    with pytest.raises(InputError, match=r"teacher.safetensors does not have the shapes of teacher.json"):
        ClassifierTask(task_settings("kd"), images, teacher).run(0, CPU)
    student, taught = build_classifier("resnet8", 4, 0), build_classifier("resnet8", 5, 0)
    with pytest.raises(InputError, match="the teacher resnet8 scores 5 classes, and the student's images have 4"):
        Distillation(
            student, taught, WeightParams(labels=1.0, answers=1.0, answers_temperature=4.0, contrast=0.0), None
        )
    with pytest.raises(ValueError, match=r"dataset 'shape' is none of .*; did you mean 'shapes'"):
        DistillationImagesParams(dataset="shape", settings={}, train_images=None, test_images=None)


@pytest.mark.parametrize(
    ("old", "new", "read", "sentence"),
    [
        (
            "student: resnet8,",
            "student: resnett20,",
            whole,
            "no network is named 'resnett20'; did you mean 'resnet2",
        ),
        ("teachers:\n- ", "teachers:\n- x", whole, "no network is named 'x.*'; did you mean 'resnet"),
        (
            "  crd: {}",
            "  crd: {weihgts: {}}",
            lambda study: loss_settings(study, "crd"),
            r"rows.crd: 'weihgts' is none of weights",
        ),
        ("  crd: {}", "  cdr: {}", lambda study: loss_settings(study, "crd"), "rows has no 'crd'; did"),
        ("labels: 1.0", "labels: 0.0", lambda study: loss_settings(study, "alone"), "labels, answers and contr"),
    ],
)
def test_an_unknown_network_teacher_or_loss_is_refused_with_the_nearest_known_one(old, new, read, sentence, tmp_path):
    text = STUDY.read_text()
    assert old in text
    (tmp_path / "params.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=sentence):
        read(OwnStudy(tmp_path / "params.yaml"))
