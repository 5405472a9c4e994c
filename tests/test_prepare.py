"""From tensors to a machine: the whole chain against closed forms and against itself."""

import io
import math
from importlib import import_module

import pytest
import torch

import joker
from joker import kernels
from joker.errors import BudgetTooSmall
from joker.runtime import OutOfMemory
from joker.solvers import Descent, Reason, Settings


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
    new = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
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
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "features"])
def test_every_kernel_trains(kernel: str, exact: bool) -> None:
    n_features = None if exact else 3 if kernel == "linear" else 64  # the linear kernel is its own map
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


def test_the_median_is_the_default_bandwidth_of_a_name_and_a_kernel_keeps_its_own() -> None:
    x, y = data()
    median = torch.pdist(x).median().item()
    assert joker.prepare(x, y, kernel="gaussian").kernel.bandwidth == pytest.approx(median, rel=0.02)
    own = kernels.Gaussian(bandwidth=math.pi)
    assert joker.prepare(x, y, kernel=own).kernel.bandwidth == math.pi
    assert joker.prepare(x, y, kernel=own, bandwidth="median").kernel.bandwidth == pytest.approx(median, rel=0.02)


def exact_gap(x: torch.Tensor, y: torch.Tensor, training: joker.Training, alpha: torch.Tensor, lam: float) -> float:
    """The relative gap in float64 from α alone, with a fresh kernel matrix."""
    psi = None if training.features is None else training.features.to(torch.float64, "cpu")(x.double())
    K = training.kernel(x.double(), x.double()) if psi is None else psi @ psi.T
    a = alpha.double()
    f = K @ a
    loss = joker.losses.Scaled(training.descent.problem.loss, 1 / lam)
    primal = 0.5 * (a * f).sum() + loss.value(y.double()[:, None], f).sum()
    dual = 0.5 * (a * f).sum() + loss.psi(y.double()[:, None], a).sum()
    return float((primal + dual) / primal.abs())


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "epsilon_insensitive", "lp", "hinge", "logistic"])
@pytest.mark.parametrize("n_features", [None, 64])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_the_gap_of_a_float32_fit_is_that_of_its_alpha(loss: str, n_features: int | None, scale: float) -> None:
    """Every term of the gap is positive whatever f is: only a fresh f can show that the proof is one."""
    x, y = data(dtype=torch.float32)
    y = y.sign() if loss in ("hinge", "logistic") else y
    kernel = "linear" if scale > 1 else "gaussian"
    n_features = 3 if scale > 1 and n_features else n_features
    settings = Settings(block_size=40, max_epochs=20 if scale == 1 else 3)
    training = joker.prepare(scale * x, y, loss=loss, kernel=kernel, n_features=n_features, settings=settings)
    _, report = training.run()
    expected = exact_gap(scale * x, y, training, report.alpha, 1.0)
    if report.reason is Reason.TOLERANCE or scale == 1:
        assert report.relative_gap == pytest.approx(expected, rel=0.2, abs=2e-3)


def test_inputs_so_large_that_float32_fails_end_with_the_truth() -> None:
    x, y = data(dtype=torch.float32)
    for loss in ("squared", "huber", "hinge"):
        target = y.sign() if loss == "hinge" else y
        training = joker.prepare(1000 * x, target, kernel="linear", loss=loss)
        _, report = training.run()
        assert bool(report.alpha.isfinite().all())
        assert report.reason in (Reason.TOLERANCE, Reason.STALLED, Reason.SLOW)
        assert exact_gap(1000 * x, target, training, report.alpha, 1.0) < 3 * report.relative_gap + 1e-2


def test_a_state_of_another_kernel_bandwidth_draw_or_data_is_refused() -> None:
    x, y = data()
    saved = joker.prepare(x, y, bandwidth=1.0, n_features=40).descent.state_dict()
    others = [
        joker.prepare(x, y, bandwidth=3.0, n_features=40),
        joker.prepare(x, y, bandwidth=1.0, n_features=40, kernel="cauchy"),
        joker.prepare(x, y, bandwidth=1.0, n_features=40, features="orthogonal"),
        joker.prepare(torch.cat([x[:-1], x[:1]]), y, bandwidth=1.0, n_features=40),
        joker.prepare(x, torch.cat([y[:-1], y[:1]]), bandwidth=1.0, n_features=40),
        joker.prepare(x, y, bandwidth=1.0, n_features=40, weights=torch.ones(200) / 2),
    ]
    for other in others:
        with pytest.raises(joker.errors.StateMismatch):
            other.descent.load_state_dict(saved)
    joker.prepare(x, y, bandwidth=1.0, n_features=40).descent.load_state_dict(saved)


@pytest.mark.parametrize("failing", ["make_targets", "choose_bandwidth", "FeatureState"])
def test_too_little_gpu_memory_before_the_first_step_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Memory may run out in the targets, in the sample for the bandwidth and in the state."""

    def full(*_: object, **__: object) -> None:
        raise OutOfMemory("CUDA out of memory")

    monkeypatch.setattr(import_module("joker.prepare"), failing, full)
    with pytest.raises(BudgetTooSmall, match=r"the GPU must have room .* device='cpu'") as caught:
        joker.prepare(*data(), n_features=40)
    assert isinstance(caught.value.__cause__, OutOfMemory)


def test_too_little_gpu_memory_in_a_run_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Descent) -> None:
        raise OutOfMemory("CUDA out of memory")

    training = joker.prepare(*data(), n_features=40)
    monkeypatch.setattr(Descent, "best", full)
    with pytest.raises(BudgetTooSmall, match="the GPU must have room"):
        training.run()


def test_what_is_printed_is_short() -> None:
    x, y = data()
    for n_features in (None, 40):
        machine, report = joker.prepare(x, y, n_features=n_features).run()
        assert len(repr(machine)) < 120
        assert len(repr(report)) < 200
