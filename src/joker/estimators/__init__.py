"""Estimators with scikit-learn's contract."""

from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.persistence import load
from joker.estimators.plots import ConvergenceDisplay, PathDisplay
from joker.estimators.regression import (
    KernelHuber,
    KernelLp,
    KernelQuantile,
    KernelRegressor,
    KernelRidge,
    KernelSVR,
)
from joker.runtime.moved import moved

__all__ = [
    "ConvergenceDisplay",
    "KernelClassifier",
    "KernelHuber",
    "KernelLogistic",
    "KernelLp",
    "KernelQuantile",
    "KernelRegressor",
    "KernelRidge",
    "KernelSVC",
    "KernelSVR",
    "PathDisplay",
    "load",
]

__getattr__ = moved(__name__, "joker.tuning", "Tuned", "tune")  # for one release
