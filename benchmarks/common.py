"""What the benchmarks share: a description of the machine, the data sets, and writing of results files."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from paper import datasets
from torch import Tensor

import joker
from joker.errors import MissingFile

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
DATA_VARIABLE = "JOKER_DATA"
REMEDY = "See docs/data-sets.md, or use --quick, which needs no files."
BATCH_ROWS = 200_000  # rows of a data set that are read at a time
COVTYPE_POSITIVE = 2  # the class of covtype that is +1 in the binary problem
COMMIT_VARIABLE = "JOKER_COMMIT"  # where a benchmark runs without the repository
NOT_RECORDED = "not recorded"
CLASSIFICATION, REGRESSION = "covtype", "kin40k"
Array = NDArray[Any]


def data_folder() -> Path | None:
    """Return the folder of the data sets, which ``$JOKER_DATA`` names; None where it names none."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def arrays(name: str, split: str = "all") -> tuple[Array, Array]:
    """Return inputs (n, d) in float32 and targets (n,) of a data set, in file order; MNIST's pixels are in [0, 1]."""
    if data_folder() is None:
        raise SystemExit(f"{DATA_VARIABLE} must name the folder of the data sets; it is not set. {REMEDY}")
    try:
        source = datasets.load(name, split=split)
    except MissingFile as error:
        raise SystemExit(f"{error} {REMEDY}") from error
    batches = [(batch.dense.astype(np.float32), np.asarray(batch.y)) for batch in source.batches(BATCH_ROWS)]
    x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return x / np.float32(255) if name == "mnist" else x, y


def load(name: str) -> tuple[Tensor, Tensor]:
    """Return inputs (n, d) and targets (n,) of a data set in float64, in file order; covtype's targets are -1 and 1."""
    x, y = (torch.from_numpy(part.astype(np.float64)) for part in arrays(name))
    return x, torch.where(y == COVTYPE_POSITIVE, 1.0, -1.0).to(y) if name == CLASSIFICATION else y


def generated(name: str, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return generated rows in place of a data set, for runs that only show that a script works."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=draw, dtype=torch.float64)
    y = x[:, 0] * x[:, 1] + x[:, 2].sin() + 0.1 * torch.randn(n, generator=draw, dtype=torch.float64)
    return x, torch.where(y > 0, 1.0, -1.0).to(y) if name == CLASSIFICATION else y


def shuffled(x: Tensor, y: Tensor, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return ``n`` rows drawn without replacement."""
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:n]
    return x[rows], y[rows]


def standardise(part: Tensor, train: Tensor) -> Tensor:
    """Return z-scores by mean and deviation of ``train``; an input that is constant there is only centred."""
    spread = train.std(0)
    return (part - train.mean(0)) / torch.where(spread > 0, spread, 1.0)


def machine(seed: int) -> dict[str, Any]:
    """Describe the machine, the code and the run, on which a measured value depends."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "version": joker.__version__,
        "commit": commit(),
        "date": date.today().isoformat(),
        "seed": seed,
        "command": public_command(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
    }


def commit() -> str:
    """Return the commit of the checkout, marked where the package has changes; ``$JOKER_COMMIT`` names it elsewhere."""
    named = os.environ.get(COMMIT_VARIABLE)
    if named:
        return named
    try:
        found = _git("rev-parse", "--short=10", "HEAD")
        return f"{found}, with changes" if _git("status", "--porcelain", "src") else found
    except (OSError, subprocess.CalledProcessError):
        return NOT_RECORDED


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def public_command(words: Sequence[str]) -> str:
    """Return a command without folders of the computer that ran it."""
    return re.sub(r" --(?:out|results|folder|data)[ =]\S+", "", " ".join(words))


def gpu(device: str) -> dict[str, Any]:
    """Name the GPU and the CUDA version; empty on the CPU. All results files have the name under ``card``."""
    return {"card": torch.cuda.get_device_name(), "cuda": torch.version.cuda} if device == "cuda" else {}


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file at once, so that an interrupted run leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    text = json.dumps(content, indent=1, allow_nan=False)
    # A list without lists and objects inside is written on one line.
    text = re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text)
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(path)
