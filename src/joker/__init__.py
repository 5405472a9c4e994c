"""Kernel machines on millions of rows, in a memory budget, certified by a duality gap."""

from importlib.metadata import PackageNotFoundError, version

from joker import errors, features, kernels, losses, solvers
from joker.estimators import (
    KernelClassifier,
    KernelHuber,
    KernelLogistic,
    KernelLp,
    KernelQuantile,
    KernelRegressor,
    KernelRidge,
    KernelSVC,
    KernelSVR,
)
from joker.training import Training, prepare

try:
    __version__ = version("joker")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "KernelClassifier",
    "KernelHuber",
    "KernelLogistic",
    "KernelLp",
    "KernelQuantile",
    "KernelRegressor",
    "KernelRidge",
    "KernelSVC",
    "KernelSVR",
    "Training",
    "__version__",
    "errors",
    "features",
    "kernels",
    "losses",
    "prepare",
    "solvers",
]
