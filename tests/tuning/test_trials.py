"""What trials share: the weights of rows in feature weights and in λ, and the splits of their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import joker
from joker.tuning import trials
from joker.tuning.ard import ArdFit, ArdSample, FeatureWeights
from joker.tuning.halving import Candidate, Family, TimeBudget, Trial
from joker.tuning.trials import TrialFit, TrialResult, TrialRunner, TrialWorkers, make_trial_runner, penalty_scale

Array = NDArray[Any]
CPU = torch.device("cpu")


def runner_of(model: Any, X: Array, y: Array, w: Array | None = None) -> TrialRunner:
    return make_trial_runner(model, lambda *_, **__: 0.0, X, y, w, CPU, None, TimeBudget())


def test_feature_weights_are_fitted_with_the_weights_of_the_rows(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weight of a row is written in its first input, so that a sample shows whether it has its own weights."""
    X = rng.uniform(0.5, 2, (600, 3))
    seen: list[ArdSample] = []

    def watched(x: Array, groups: Array, samples: Any, *others: Any) -> ArdFit:
        sample = next(samples)
        seen.append(sample)
        np.testing.assert_allclose(sample.w, x[sample.rows, 0], rtol=1e-6)
        return ArdFit(torch.zeros(len(groups)), 1.0, 0.0)

    monkeypatch.setattr(trials, "fit_ard", watched)
    model = joker.KernelRidge(random_state=0, standardize=False)
    runner = runner_of(model, X, X[:, 1], X[:, 0])
    assert runner.feature_weights is not None
    assert len(seen) == len(runner.splits)


def test_the_scale_of_lambda_is_in_the_unit_of_the_weights(rng: np.random.Generator) -> None:
    """For the squared loss it is the mean weight of the rows that count, whatever the unit of the target."""
    y, w = rng.normal(3, 5, 50), rng.uniform(0, 2, 50)
    w[:10] = 0
    for unit in (1.0, 100.0):
        assert penalty_scale(joker.KernelRidge(), unit * y, w) == pytest.approx(w[10:].mean())
        assert penalty_scale(joker.KernelRidge(), unit * y, 7 * w) == pytest.approx(7 * w[10:].mean())
    assert penalty_scale(joker.KernelRidge(), y, None) == pytest.approx(1.0)


class Numbered(TrialWorkers):
    """Gives the fit number i of a call the loss i, so that a trial shows the fits it is made of."""

    def run(self, runner: Any, fits: Any) -> list[TrialResult]:
        self.fits: list[TrialFit] = list(fits)
        return [TrialResult(([float(i)], [0.0]), 1.0) for i in range(len(fits))]


def test_a_trial_is_the_mean_over_its_own_splits(rng: np.random.Generator) -> None:
    X = rng.normal(size=(600, 2))
    workers = Numbered()
    with trials.trials_on(workers):
        runner = runner_of(joker.KernelRidge(random_state=0), X, X[:, 0])
    family = Family("gaussian", (1.0,), lam=(0.5,))
    together = runner.run(1, 100, [Candidate(family, sigma, (0.5,)) for sigma in (1.0, 2.0, 3.0, 4.0)])
    assert len(runner.splits) == 3
    assert [fit.split for fit in workers.fits] == [0, 1, 2] * 4
    assert [fit.estimator.bandwidth for fit in workers.fits] == [sigma for sigma in (1.0, 2.0, 3.0, 4.0) for _ in "abc"]
    assert [trial.loss for (trial,) in together] == [1.0, 4.0, 7.0, 10.0]


def test_residuals_of_a_split_have_the_feature_weights_of_its_training_rows(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that the held-out rows have chosen too would make their residuals too small."""
    X = rng.normal(size=(600, 2))
    runner = runner_of(joker.KernelQuantile(random_state=0), X, X[:, 0])
    weights = np.array([[1.0, 0.5], [0.25, 1.0], [1.0, 0.1]])
    vars(runner)["feature_weights"] = FeatureWeights(weights)
    seen: list[Array] = []
    fit_sample = joker.KernelQuantile.fit_sample

    def watched(self: Any, sample: Any) -> Any:
        seen.append(self.bandwidth)
        return fit_sample(self, sample)

    monkeypatch.setattr(joker.KernelQuantile, "fit_sample", watched)
    best = Candidate(Family("gaussian", (3.0,)), 3.0, (1.0,), power=1.0)
    model = joker.KernelQuantile(kernel="gaussian", lam=1.0, quantile=[0.1, 0.9])
    residuals, _ = runner.held_out_levels(model, best, 60)
    assert residuals.shape == (600, 2)
    np.testing.assert_allclose(seen, 3.0 / weights)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_the_default_has_the_penalty_of_the_estimator(kernel: str, rng: np.random.Generator) -> None:
    """The λ of a candidate is a multiple of a scale, which here is the mean weight, 7, times the mean of k(x, x)."""
    X = 3 * rng.normal(size=(300, 2))
    model = joker.KernelRidge(kernel=kernel, lam=0.37, random_state=0, standardize=False)
    runner = runner_of(model, X, X[:, 0], np.full(300, 7.0))
    candidate = runner.default(model, [runner.family(kernel, None, None)])
    assert candidate is not None
    sample = X[np.sort(runner.splits[0].train[:256])]
    scale = 7 * (1.0 if kernel == "gaussian" else float(np.mean((sample**2).sum(axis=1))))
    assert candidate.lam == pytest.approx((0.37 / scale,))
    assert runner.entry(Trial(0, 10, candidate, candidate.lam[0], 0.0, 0.0, 0.0))["lam"] == pytest.approx(0.37)
