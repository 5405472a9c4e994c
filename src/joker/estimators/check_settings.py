"""The checks of an estimator's parameters that need no data."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils import check_random_state

from joker import features
from joker.data import Blocks
from joker.estimators import resolve
from joker.estimators.input_bandwidths import bandwidth_of_inputs
from joker.estimators.scoring import scorer_of
from joker.estimators.sklearn_words import get_kernel
from joker.kernels import Kernel
from joker.kernels.bandwidth import check_rule
from joker.runtime import parse_device
from joker.solvers import Settings
from joker.solvers.settings import AUTO

SWITCHES = ("fit_intercept", "warm_start")


def check_settings(model: Any, n_inputs: int | None) -> None:
    """Check the parameters that all estimators share: see `KernelEstimator.check_settings`."""
    resolve.penalties(model.lam)
    kernel = get_kernel(model.kernel)
    _check_bandwidth(model.bandwidth, kernel, n_inputs)
    m = resolve.n_features(model.n_features, model.features, kernel, 1, n_inputs or 1)
    features.check(kernel, model.features, n_inputs or m or 1, m)
    Blocks(1, resolve.block_size(model.block_size, 1))
    Settings(
        max_epochs=resolve.max_epochs(model.max_epochs, model.method, 1),
        tol=model.tol,
        max_time=model.max_time,
        method=model.method,
        averaging=model.averaging,
        momentum=model.momentum,
    )
    for name in SWITCHES:
        resolve.flag(name, getattr(model, name))
    resolve.check_standardize(model.standardize)
    scorer_of(model.early_stopping)
    resolve.fraction(model.validation_fraction)
    resolve.callbacks(model.callbacks, model.verbose, model.early_stopping)
    device = parse_device(model.device)
    resolve.precision(model.precision, model.dtype, False, device)
    resolve.memory(model.memory, device)
    check_random_state(model.random_state)


def _check_bandwidth(bandwidth: Any, kernel: Kernel, n_inputs: int | None) -> None:
    """Check a number or a rule; an array can be checked only against the number of inputs."""
    if isinstance(bandwidth, str | Real):
        if bandwidth != AUTO:
            check_rule(bandwidth)
    elif n_inputs is not None and bandwidth_of_inputs(bandwidth, kernel, n_inputs) is None:
        check_rule(bandwidth)
