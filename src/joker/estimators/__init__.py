"""Estimators with scikit-learn's contract."""

from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.display import ConvergenceDisplay, PathDisplay
from joker.estimators.regression import (
    KernelHuber,
    KernelLp,
    KernelQuantile,
    KernelRegressor,
    KernelRidge,
    KernelSVR,
)
from joker.estimators.saving import load
from joker.estimators.trials import Tuned
from joker.estimators.tuning import tune

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
    "Tuned",
    "load",
    "tune",
]
