"""Kernel machines on millions of rows, in a memory budget, certified by a duality gap."""

from joker import interrupts

interrupts.end_quietly()  # before the imports that take long

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from joker import callbacks, distributed, errors, features, kernels, losses, solvers  # noqa: E402
from joker.models import Machine, load  # noqa: E402
from joker.prepare import Training, prepare  # noqa: E402
from joker.runtime import VERSION as __version__  # noqa: E402
from joker.solvers import Reason, Report, Settings  # noqa: E402
from joker.warmup import warmup  # noqa: E402

if TYPE_CHECKING:
    from joker import export
    from joker.estimators import (
        ConvergenceDisplay,
        KernelClassifier,
        KernelExpectile,
        KernelGamma,
        KernelHuber,
        KernelLogistic,
        KernelLp,
        KernelOneClass,
        KernelPCA,
        KernelPoisson,
        KernelQuantile,
        KernelRegressor,
        KernelRidge,
        KernelSVC,
        KernelSVR,
        KernelTransformer,
        KernelTweedie,
        PathDisplay,
    )
    from joker.tables import JokerClassifier, JokerRegressor
    from joker.tuning.tune import Tuned, tune

__all__ = [
    "ConvergenceDisplay",
    "JokerClassifier",
    "JokerRegressor",
    "KernelClassifier",
    "KernelExpectile",
    "KernelGamma",
    "KernelHuber",
    "KernelLogistic",
    "KernelLp",
    "KernelOneClass",
    "KernelPCA",
    "KernelPoisson",
    "KernelQuantile",
    "KernelRegressor",
    "KernelRidge",
    "KernelSVC",
    "KernelSVR",
    "KernelTransformer",
    "KernelTweedie",
    "Machine",
    "PathDisplay",
    "Reason",
    "Report",
    "Settings",
    "Training",
    "Tuned",
    "__version__",
    "callbacks",
    "distributed",
    "errors",
    "export",
    "features",
    "kernels",
    "load",
    "losses",
    "prepare",
    "solvers",
    "tune",
    "warmup",
]


_OWNERS = {
    "JokerClassifier": "joker.tables",
    "JokerRegressor": "joker.tables",
    "Tuned": "joker.tuning",
    "tune": "joker.tuning",
}


def __getattr__(name: str) -> Any:
    """Import the estimators when one is first asked for: they import scikit-learn, which takes long."""
    if name == "export":
        return import_module("joker.export")
    if name in __all__:
        return getattr(import_module(_OWNERS.get(name, "joker.estimators")), name)
    raise AttributeError(f"module 'joker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
