"""Estimators with scikit-learn's contract."""

from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.deviance import KernelExpectile, KernelGamma, KernelPoisson, KernelTweedie
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
    "PathDisplay",
]
