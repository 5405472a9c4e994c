"""Compiling ahead what a GPU needs, so that the first fit does not wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from joker import kernels, losses
from joker.prepare import prepare
from joker.runtime import generator, parse_device
from joker.solvers import Settings

ROWS, CLASSES, FEATURES = 3_000, 3, 500  # of the small fits: several blocks, several columns
BLOCKS = (512, 1_024)  # rows: the usual blocks with features, and with the exact kernel
CPU = "Nothing to compile: the CPU uses no kernels of Triton."


def warmup(
    device: str | torch.device | None = None,
    *,
    n_inputs: int | Sequence[int] = 10,
    kernel: str | Sequence[str] = "gaussian",
    loss: str | Sequence[str] = ("squared", "hinge", "squared_hinge", "logistic", "epsilon_insensitive"),
) -> str:
    """Compile the kernels of Triton that fits and predictions on a GPU use, by some small fits.

    Triton keeps what it has compiled in a folder (``~/.triton/cache``, or ``TRITON_CACHE_DIR``), so that one call
    serves all later processes with the same GPU and the same versions. A fit of a kind that was not warmed up compiles
    what it needs itself, and its results are the same. On a CPU nothing is compiled, and the call returns at once.

    Parameters
    ----------
    device : str or torch.device, optional
        The device; None is the GPU if there is one, else the CPU.
    n_inputs : int or sequence of int
        The numbers of inputs d of the rows that will be fitted. Others that are no multiple of 16 share their code.
    kernel : str or sequence of str
        The names of the kernels.
    loss : str or sequence of str
        The names of the losses.

    Returns
    -------
    str
        What was done, in a sentence.

    Examples
    --------
    >>> import joker
    >>> joker.warmup("cpu")
    'Nothing to compile: the CPU uses no kernels of Triton.'
    """
    place = parse_device(device or ("cuda" if _has_gpu() else "cpu"))
    widths = (n_inputs,) if isinstance(n_inputs, int) else tuple(n_inputs)
    names = (kernel,) if isinstance(kernel, str) else tuple(kernel)
    wanted = (loss,) if isinstance(loss, str) else tuple(loss)
    for name in names:
        kernels.get(name)
    for name in wanted:
        losses.get(name)
    if place.type != "cuda":
        return CPU
    started, fits = time.perf_counter(), 0
    for d in widths:
        for settings in _fits(names, wanted):
            _small_fit(place, d, **settings)
            fits += 1
    seconds = time.perf_counter() - started
    return f"Compiled the kernels of {fits} small fits for {place} in {seconds:.1f} s; later processes find them."


def _has_gpu() -> bool:
    try:
        parse_device("cuda")
    except ValueError:
        return False
    return True


def _fits(names: Sequence[str], wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the settings of fits that use each kernel, each loss, both kinds of state, and one column or several."""
    for name in names:
        with_features = bool(kernels.get(name).feature_kinds)
        for loss in wanted:
            for columns in (1, CLASSES):
                yield {"kernel": name, "loss": loss, "columns": columns, "m": None}
                if with_features:
                    yield {"kernel": name, "loss": loss, "columns": columns, "m": FEATURES}


def _small_fit(place: torch.device, d: int, *, kernel: str, loss: str, columns: int, m: int | None) -> None:
    """Fit generated rows in several blocks, and predict them."""
    x = torch.randn(ROWS, d, generator=generator(0, "warmup"))
    y = (x[:, :1] + torch.linspace(-1, 1, columns)).sign()
    y[y == 0] = 1.0
    if isinstance(losses.get(loss), losses.LogLinkLoss):
        y += 2.0  # positive numbers
    features = d if "identity" in kernels.get(kernel).feature_kinds else m
    settings = Settings(block_size=BLOCKS[m is None], max_epochs=1, tol=0)
    training = prepare(
        x.to(place),
        y.to(place),
        loss=loss,
        kernel=kernel,
        n_features=None if m is None else features,
        intercept=True,
        mixed=True,
        settings=settings,
    )
    machine, _ = training.run()
    machine.predict(x.to(place))
