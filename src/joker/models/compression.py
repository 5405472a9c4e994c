"""A smaller machine with nearly the same predictions: fewer support rows, with weights by least squares."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from joker.data import TensorRows
from joker.errors import InvalidParameter
from joker.kernels import Kernel
from joker.models.machine import ExactMachine
from joker.runtime import format_bytes, generator

SAMPLES = 8  # rows whose predictions are approximated, for each support row that is kept
CHECKED_ROWS = 4_000  # other rows, on which the error is measured, where there are so many
RIDGE = 1e-3  # share of the mean square of the features that is added to their Gram matrix
JITTER = 1e-10  # share of the largest kernel value that is added to the kernel matrix, at first
CHUNK = 4_096  # rows at a time
MATRICES = 4  # of (rows, rows) numbers in float64 that are held at once


def compress(
    machine: ExactMachine, rows: int | None, seed: int, memory: int
) -> tuple[ExactMachine, Tensor]:  # and (t,)
    """Return a machine with some of the rows, and the error of its predictions as a share of their deviation.

    Where all rows whose weight is not 0 may stay, the predictions stay the same. Else the rows are drawn from these at
    random, and their weights β minimise Σ (f(x) − Σ β_j k(x, z_j))² over a sample of all rows, with a small multiple
    of βᵀKβ. The error is the root of its mean square on rows that were not used for that; on all rows where there are
    no others.
    """
    n, support = len(machine.x), machine.alpha.any(1).nonzero()[:, 0].cpu()
    if rows is None or rows >= len(support):
        exact = replace(
            machine, x=TensorRows(_rows(machine, support)), alpha=machine.alpha[support.to(machine.alpha.device)]
        )
        return exact, machine.alpha.new_zeros(machine.alpha.shape[1])
    needed = MATRICES * 8 * rows**2
    if needed > memory:
        raise InvalidParameter(
            f"n_rows must be small enough for the memory: {rows:,} rows need {format_bytes(needed)}, and "
            f"{format_bytes(memory)} are allowed. Use at most {int((memory / MATRICES / 8) ** 0.5):,} rows."
        )
    drawn = generator(seed, "compression")
    z = _rows(machine, support[torch.randperm(len(support), generator=drawn)[:rows]].sort().values)
    order = torch.randperm(n, generator=drawn)
    checked = min(CHECKED_ROWS, n // 4)
    others, sample = order[:checked], order[checked : checked + rows * SAMPLES].sort().values
    kernel = machine.kernel
    factor = _cholesky(kernel(z, z).double(), float(kernel.diag(z).max()))
    gram, right = factor.new_zeros(rows, rows), factor.new_zeros(rows, machine.alpha.shape[1])
    for part in sample.split(CHUNK):
        x = _rows(machine, part)
        features = _features(kernel, x, z, factor)
        gram.addmm_(features.T, features)
        right.addmm_(features.T, machine.predict(x).double())
    gram.diagonal().add_(RIDGE * float(gram.diagonal().mean()))
    weights = torch.cholesky_solve(right, _cholesky(gram, float(gram.diagonal().max())))
    beta = torch.linalg.solve_triangular(factor.T, weights, upper=True)
    small = replace(machine, x=TensorRows(z), alpha=beta.to(machine.alpha.dtype))
    return small, _error(machine, small, others if len(others) else order)


def _rows(machine: ExactMachine, numbers: Tensor) -> Tensor:  # (k,) -> (k, d)
    rows: Tensor = machine.x[numbers.to(machine.x.index_device)].to(machine.alpha.device)
    return rows


def _features(kernel: Kernel, x: Tensor, z: Tensor, factor: Tensor) -> Tensor:  # (k, d), (m, d), (m, m) -> (k, m)
    """Return K(x, z) L⁻ᵀ, the features of which K(z, z) = LLᵀ is the kernel."""
    solved: Tensor = torch.linalg.solve_triangular(factor, kernel(x, z).double().T, upper=False)
    return solved.T


def _cholesky(matrix: Tensor, size: float) -> Tensor:  # (m, m)
    """Return the factor of a positive semidefinite matrix with as little jitter as it needs."""
    jitter = JITTER * size
    while True:
        matrix.diagonal().add_(jitter)
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not int(failed):
            return factor
        jitter *= 10


def _error(machine: ExactMachine, small: ExactMachine, numbers: Tensor) -> Tensor:  # (t,)
    parts = []
    for part in numbers.sort().values.split(CHUNK):
        x = _rows(machine, part)
        parts.append(torch.stack([machine.predict(x), small.predict(x)]).double())
    f, found = torch.cat(parts, dim=1)
    deviation = f.var(dim=0, correction=0).clamp(min=torch.finfo(f.dtype).tiny)
    error: Tensor = ((f - found).square().mean(dim=0) / deviation).sqrt()
    return error
