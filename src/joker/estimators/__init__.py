"""Estimators with scikit-learn's contract."""

from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.novelty import KernelOneClass
from joker.estimators.plots import ConvergenceDisplay, PathDisplay
from joker.estimators.regression import (
    KernelHuber,
    KernelLp,
    KernelQuantile,
    KernelRegressor,
    KernelRidge,
    KernelSVR,
)
from joker.estimators.transformers import KernelPCA, KernelTransformer

__all__ = [
    "ConvergenceDisplay",
    "KernelClassifier",
    "KernelHuber",
    "KernelLogistic",
    "KernelLp",
    "KernelOneClass",
    "KernelPCA",
    "KernelQuantile",
    "KernelRegressor",
    "KernelRidge",
    "KernelSVC",
    "KernelSVR",
    "KernelTransformer",
    "PathDisplay",
]
