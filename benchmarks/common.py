"""What the benchmarks share: the machine in words, the data sets, results written whole or not at all."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import sys
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
DATA_VARIABLE = "JOKER_DATA"
COVTYPE_POSITIVE = 2  # covtype as a binary set: this class against the rest
CLASSIFICATION, REGRESSION = "covtype", "kin40k"


def data_folder() -> Path | None:
    """``$JOKER_DATA``, or ``shared/data`` beside the repository; None where it is absent."""
    named = os.environ.get(DATA_VARIABLE)
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if (folder / "load.py").is_file() else None


def loader() -> ModuleType:
    """The module that reads the data sets."""
    folder = data_folder()
    if folder is None:
        raise SystemExit(f"The data sets are not there. Set {DATA_VARIABLE} to their folder, or use --quick.")
    spec = importlib.util.spec_from_file_location("joker_data_sets", folder / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(name: str) -> tuple[Tensor, Tensor]:
    """Inputs (n, d) and targets (n,) of a data set in float64, rows in file order; covtype's targets are -1 and 1."""
    x, y = (torch.from_numpy(np.asarray(part, dtype=np.float64)) for part in loader().load(name))
    return x, torch.where(y == COVTYPE_POSITIVE, 1.0, -1.0).to(y) if name == CLASSIFICATION else y


def generated(name: str, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """A stand-in for a data set, for runs that only show that a script works."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=draw, dtype=torch.float64)
    y = x[:, 0] * x[:, 1] + x[:, 2].sin() + 0.1 * torch.randn(n, generator=draw, dtype=torch.float64)
    return x, torch.where(y > 0, 1.0, -1.0).to(y) if name == CLASSIFICATION else y


def shuffled(x: Tensor, y: Tensor, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """``n`` rows drawn without replacement."""
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:n]
    return x[rows], y[rows]


def standardise(part: Tensor, train: Tensor) -> Tensor:
    """z-scores by the figures of ``train``; an input that is constant there is only centred."""
    spread = train.std(0)
    return (part - train.mean(0)) / torch.where(spread > 0, spread, 1.0)


def machine(seed: int) -> dict[str, Any]:
    """What a figure depends on beside the code."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
        "seed": seed,
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
    }


def card(device: str) -> dict[str, Any]:
    """What a figure depends on beside the machine where it was measured on a card; nothing on the CPU."""
    return {"card": torch.cuda.get_device_name(), "cuda": torch.version.cuda} if device == "cuda" else {}


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file in one go, so that an interrupted run leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    text = json.dumps(content, indent=1, allow_nan=False)
    text = re.sub(
        r"\[\s+([^\[\]{}]+?)\s+\]", lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text
    )  # lists in a line
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(path)
