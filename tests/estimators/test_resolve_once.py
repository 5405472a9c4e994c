"""Each parameter of a constructor is resolved once in a fit."""

import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import joker
from joker import kernels, losses
from joker.estimators.estimator import KernelEstimator
from joker.estimators.resolve import Request, resolve
from joker.solvers import Settings
from joker.solvers.methods.choice import choose

MODELS: list[tuple[KernelEstimator, int]] = [
    (joker.KernelSVC(), 2),
    (joker.KernelSVC(loss="hinge"), 3),
    (joker.KernelClassifier(loss="crammer_singer"), 3),
    (joker.KernelLogistic(), 2),
    (joker.KernelRidge(n_features=50), 0),
    (joker.KernelRegressor(loss="huber", early_stopping=True), 0),
    (joker.KernelQuantile(quantile=[0.1, 0.9], lam=[0.1, 1.0]), 0),
]


def calls(code: dict[str, CodeType], action: Any) -> Counter[str]:
    """How often each function is called during an action."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts.update(name for name, one in code.items() if one is frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return counts


@pytest.mark.parametrize(("model", "classes"), MODELS, ids=lambda value: repr(value)[:60])
def test_each_parameter_is_resolved_once(model: KernelEstimator, classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.integers(classes, size=200) if classes else X[:, 0]
    code = {
        "parameters": resolve.__code__,
        "loss": type(model)._named_loss.__code__,
        "kernel": kernels.get.__code__,
        "settings": Settings.__post_init__.__code__,
        "method": choose.__code__,
        "precision": Request._precision.__code__,
    }
    assert calls(code, lambda: model.fit(X, y)) == dict.fromkeys(code, 1)


def test_a_second_resolution_is_seen() -> None:
    code = {"kernel": kernels.get.__code__, "loss": losses.get.__code__}
    counts = calls(code, lambda: [kernels.get("gaussian"), kernels.get("linear"), losses.get("hinge")])
    assert counts == {"kernel": 2, "loss": 1}
