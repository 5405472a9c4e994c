"""Machines as a document with tensors: the same predictions, and documents that contradict their tensors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import joker
from joker import features, kernels
from joker.data import as_rows, sparse_rows
from joker.errors import InvalidFile
from joker.features.feature_map import FeaturesWithConstant
from joker.kernels.kernel import KernelWithConstant
from joker.models import files as model_files
from joker.models.machine import ExactMachine, FeatureMachine
from joker.models.packing import ModelReader, pack, unpack

CPU = torch.device("cpu")
D = 3


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def feature_map(m: int = 400, seed: int = 5) -> Any:
    return features.draw(kernels.Gaussian(1.5), "fourier", D, m, seed, dtype=torch.float32)


def sparse() -> Any:
    dense = draw(20, D).numpy() * (draw(20, D, seed=3).numpy() > 0)
    csr = sp.csr_array(dense)
    parts = (torch.from_numpy(part) for part in (csr.indptr, csr.indices, csr.data))
    return sparse_rows(*parts, D)


MACHINES = {
    "exact": ExactMachine(kernels.Gaussian(1.5), as_rows(draw(20, D)), draw(20, 2)),
    "exact, with an intercept": ExactMachine(
        KernelWithConstant(kernels.Gaussian(1.5)), as_rows(draw(20, D)), draw(20, 2)
    ),
    "sparse rows": ExactMachine(kernels.Gaussian(1.5), sparse(), draw(20, 2)),
    "features": FeatureMachine(feature_map(), draw(400, 2)),
    "few features": FeatureMachine(feature_map(20), draw(20, 2)),
    "features, with an intercept": FeatureMachine(FeaturesWithConstant(feature_map(), 4), draw(401, 2)),
}


def again(machines: list[Any], **options: Any) -> list[Any]:
    document, tensors = pack(machines, **options)
    return unpack(ModelReader(json.loads(json.dumps(document)), tensors), CPU)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("store_features", [False, True])
def test_a_packed_machine_predicts_the_same(name: str, store_features: bool) -> None:
    machine, x = MACHINES[name], draw(9, D, seed=7)
    (found,) = again([machine], store_features=store_features)
    assert torch.equal(found.predict(x), machine.predict(x))


@pytest.mark.parametrize("order", [[0, 1, 0], [1, 0, 0, 1], [0, 1, 2, 1, 0]], ids=str)
def test_every_machine_of_a_path_has_its_own_weights(order: list[int]) -> None:
    """Equal weights are in the file once, such as those of the best λ and of its place on the path."""
    first = MACHINES["exact"]
    distinct = [first.columns(0, 1), replace(first, alpha=draw(20, 3, seed=8)), first]
    document, tensors = pack([distinct[k] for k in order])
    assert tensors["alpha"].shape[1] == sum(distinct[k].alpha.shape[1] for k in set(order))
    for k, found in zip(order, unpack(ModelReader(document, tensors), CPU), strict=True):
        assert torch.equal(found.weights, distinct[k].weights)


def test_features_that_their_seed_does_not_reproduce_are_saved_themselves() -> None:
    machine, x = MACHINES["features"], draw(9, D, seed=7)
    drawn = machine.features
    name = next(name for name, tensor in drawn.tensors.items() if tensor.numel() > 256)
    changed = replace(machine, features=replace(drawn, **{name: drawn.tensors[name] * 1.001}))
    assert changed.features.origin is not None
    (found,) = again([changed])
    assert torch.equal(found.predict(x), changed.predict(x))
    assert not torch.equal(found.predict(x), machine.predict(x))


@pytest.mark.parametrize(
    "columns", [[[1, 1]], [[0, 3]], [[-1, 1]], [[2, 1]], [[0, 1]], [[0, 2], [0, 1]], [[0, 2], [2, 2]]], ids=str
)
def test_columns_that_the_weights_do_not_have_are_refused(columns: list[list[int]]) -> None:
    document, tensors = pack([MACHINES["exact"]])
    with pytest.raises(InvalidFile, match="columns of the models must be the 2 of the weights"):
        unpack(ModelReader({**document, "columns": columns}, tensors), CPU)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["alpha", "rows"])
def test_tensors_that_are_not_finite_are_refused(name: str, value: float) -> None:
    document, tensors = pack([MACHINES["exact"]])
    broken = tensors[name].clone()
    broken[3, 1] = value
    with pytest.raises(InvalidFile, match=f"the tensor '{name}' must be finite"):
        unpack(ModelReader(document, {**tensors, name: broken}), CPU)


def test_a_file_has_the_lowest_version_that_can_represent_its_model(tmp_path: Path) -> None:
    """An older joker refuses a file whose version it does not know, and would else compute other predictions."""
    X, y = draw(40, D).double().numpy(), draw(40, seed=1).double().numpy()
    for version, model in (
        (1, joker.KernelRidge(bandwidth=1.0, scale_target=False)),
        (2, joker.KernelRidge(bandwidth=[1.0, 2.0, 3.0], scale_target=False)),
        (3, joker.KernelRidge(bandwidth=1.0, scale_target=True)),
    ):
        model.fit(X, 5 * y).save(tmp_path / "model.joker")
        assert model_files.read(tmp_path / "model.joker")[0]["version"] == version


def test_settings_of_a_file_are_not_replaced_by_those_of_earlier_files(tmp_path: Path) -> None:
    X, y = draw(40, D).double().numpy(), draw(40, seed=1).double().numpy()
    for scaled in (False, True):
        joker.KernelRidge(bandwidth=1.0, scale_target=scaled).fit(X, y).save(tmp_path / "model.joker")
        assert joker.load(tmp_path / "model.joker").scale_target is scaled
    classifier = joker.KernelSVC(bandwidth=1.0, multi_class="crammer_singer").fit(X, np.arange(40) % 3)
    classifier.save(tmp_path / "model.joker")
    assert joker.load(tmp_path / "model.joker").multi_class == "crammer_singer"
