"""Estimators with scikit-learn's contract."""

from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.regression import (
    KernelHuber,
    KernelLp,
    KernelQuantile,
    KernelRegressor,
    KernelRidge,
    KernelSVR,
)
from joker.estimators.saving import load

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
    "load",
]
