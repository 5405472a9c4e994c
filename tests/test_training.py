"""From tensors to a machine: the whole chain against closed forms and against itself."""

import io
import math

import pytest
import torch

import joker
from joker import kernels
from joker.solvers import Reason, Settings


def data(n: int = 200, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(n, 3, generator=draw, dtype=torch.float64)
    return x.to(dtype), (x[:, 0].sin() + 0.1 * torch.randn(n, generator=draw, dtype=torch.float64)).to(dtype)


def test_exact_ridge_is_its_closed_form() -> None:
    x, y = data()
    machine, report = joker.prepare(x, y, lam=0.5, bandwidth=1.3, settings=Settings(tol=1e-12)).run()
    kernel = kernels.get("gaussian", bandwidth=1.3)
    alpha = torch.linalg.solve(kernel(x, x) + 0.5 * torch.eye(200), y)
    torch.testing.assert_close(report.alpha[:, 0], alpha)
    new = torch.randn(50, 3, dtype=torch.float64)
    torch.testing.assert_close(machine.predict(new)[:, 0], kernel(new, x) @ alpha)


def test_ridge_with_features_is_its_closed_form_and_not_off_by_a_factor_of_m() -> None:
    """Without √(2/m) before the cosine the same λ would mean another problem for every m."""
    x, y = data()
    training = joker.prepare(x, y, lam=0.5, bandwidth=1.3, n_features=80, settings=Settings(tol=1e-12))
    machine, report = training.run()
    psi = training.features(x)
    theta = torch.linalg.solve(psi.T @ psi + 0.5 * torch.eye(80), psi.T @ y)
    torch.testing.assert_close(report.image[:, 0], theta)
    torch.testing.assert_close(machine.predict(x)[:, 0], psi @ theta)


@pytest.mark.parametrize("kernel", sorted(kernels.KERNELS))
@pytest.mark.parametrize("n_features", [None, 3, 64])
def test_every_kernel_trains(kernel: str, n_features: int | None) -> None:
    if n_features is not None and (kernel == "linear") != (n_features == 3):
        return  # the linear kernel has as many features as inputs
    x, y = data()
    settings = Settings(tol=1e-4, block_size=400)
    machine, report = joker.prepare(x, y, kernel=kernel, n_features=n_features, settings=settings).run()
    assert report.reason is Reason.TOLERANCE
    assert machine.predict(x).shape == (200, 1)
    assert float((machine.predict(x)[:, 0] - y).square().mean()) < float(y.var())


def test_a_whole_path_of_penalties_in_one_fit() -> None:
    x, y = data()
    lams = [0.01, 1.0, 100.0]
    machine, report = joker.prepare(x, y, lam=lams, loss="huber", settings=Settings(tol=1e-8)).run()
    assert report.relative_gap <= 1e-8
    for j, lam in enumerate(lams):
        alone, _ = joker.prepare(x, y, lam=lam, loss="huber", settings=Settings(tol=1e-8)).run()
        torch.testing.assert_close(machine.predict(x)[:, [j]], alone.predict(x), atol=1e-3, rtol=1e-3)


def test_predictions_in_tiles_are_the_predictions() -> None:
    x, y = data()
    for n_features in (None, 50):
        machine, _ = joker.prepare(x, y, n_features=n_features).run()
        torch.testing.assert_close(machine.predict(x, memory="20kB"), machine.predict(x))


def test_weights_are_repetitions() -> None:
    x, y = data(60)
    counts = torch.arange(60) % 3
    settings = Settings(tol=1e-10)
    weighted, _ = joker.prepare(x, y, weights=counts.double(), bandwidth=1.0, settings=settings).run()
    repeated, _ = joker.prepare(
        x.repeat_interleave(counts, 0), y.repeat_interleave(counts), bandwidth=1.0, settings=settings
    ).run()
    torch.testing.assert_close(weighted.predict(x), repeated.predict(x), atol=1e-6, rtol=1e-6)


def test_a_training_is_saved_and_continued() -> None:
    x, y = data()

    def prepare(epochs: float) -> joker.Training:
        settings = Settings(block_size=50, max_epochs=epochs, tol=0.0)
        return joker.prepare(x, y, n_features=40, settings=settings)

    whole, _ = prepare(3).run()
    first = prepare(1.5)
    first.run()
    file = io.BytesIO()
    torch.save(first.descent.state_dict(), file)
    file.seek(0)
    second = prepare(3)
    second.descent.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(second.run()[0].predict(x), whole.predict(x))


def test_the_median_is_the_default_bandwidth_and_none_keeps_the_kernels_own() -> None:
    x, y = data()
    median = torch.pdist(x).median().item()
    assert joker.prepare(x, y).kernel.bandwidth == pytest.approx(median, rel=0.02)
    own = joker.prepare(x, y, kernel=kernels.Gaussian(bandwidth=math.pi), bandwidth=None)
    assert own.kernel.bandwidth == math.pi
