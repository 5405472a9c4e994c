"""Fit a ridge regression with the kernel itself and a classifier with random features; print their gaps."""

import math
import time

import torch

import joker
from joker.solvers import Settings


def spirals(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two arms wound into each other: no straight line separates them."""
    draw = torch.Generator().manual_seed(seed)
    label = torch.where(torch.rand(n, generator=draw) < 0.5, -1.0, 1.0)
    turn = 3 * math.pi * torch.rand(n, generator=draw).sqrt()
    angle = turn + (label > 0) * math.pi
    x = turn[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
    return (x + 0.4 * torch.randn(n, 2, generator=draw)) / 5, label


def waves(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A smooth surface with noise of deviation 0.1."""
    draw = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(n, 2, generator=draw) - 3
    return x, (2 * x[:, 0]).sin() * x[:, 1].cos() + 0.1 * torch.randn(n, generator=draw)


def main() -> None:
    started = time.perf_counter()
    x, y = waves(4_000, seed=0)
    machine, report = joker.prepare(x, y, loss="squared", lam=0.1, bandwidth=0.7).run()
    test, truth = waves(4_000, seed=1)
    rmse = (machine.predict(test)[:, 0] - truth).square().mean().sqrt()
    print(f"ridge, exact kernel, 4,000 rows        RMSE {rmse:.3f} (noise 0.1)   {report}")

    x, y = spirals(50_000, seed=0)
    settings = Settings(max_epochs=3, tol=1e-2)
    training = joker.prepare(x, y, loss="squared_hinge", lam=1.0, bandwidth=0.3, n_features=500, settings=settings)
    machine, report = training.run()
    test, truth = spirals(10_000, seed=1)
    accuracy = (machine.predict(test)[:, 0].sign() == truth).float().mean()
    print(f"squared hinge, 500 features, 50,000 rows   accuracy {accuracy:.1%}   {report}")
    print(f"in all {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
