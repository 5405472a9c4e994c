"""What a user gets wrong: each mistake ends in a sentence that names the rule and what was found."""

import re
from typing import Any

import numpy as np
import pytest

import joker
from joker.callbacks import TimeLimit
from joker.errors import InvalidData, InvalidParameter, UnknownName

X = np.random.default_rng(0).normal(size=(30, 2))
Y = X[:, 0] - X[:, 1]
C = (Y > 0).astype(int)

PARAMETERS: list[tuple[type[Any], dict[str, Any], type[Exception], str]] = [
    (joker.KernelRegressor, {"loss": "hubber"}, UnknownName, "Did you mean 'huber'"),
    (joker.KernelRegressor, {"loss": "hinge"}, InvalidParameter, "for regression.*Use KernelClassifier"),
    (joker.KernelRegressor, {"loss": "squared", "delta": 2.0}, InvalidParameter, "'squared' must be among"),
    (joker.KernelClassifier, {"loss": "squared"}, InvalidParameter, "for classification.*Use KernelRegressor"),
    (joker.KernelClassifier, {"loss": 3}, UnknownName, "loss must be one of"),
    (joker.KernelSVC, {"loss": "logistic"}, UnknownName, "loss of KernelSVC must be one of hinge, squared_hinge"),
    (joker.KernelRidge, {"kernel": "gausian"}, UnknownName, "Did you mean 'gaussian'"),
    (joker.KernelRidge, {"lam": 0}, InvalidParameter, "lam must be a positive"),
    (joker.KernelRidge, {"lam": -1.0}, InvalidParameter, "lam=-1.0"),
    (joker.KernelRidge, {"lam": [1.0, 0.0]}, InvalidParameter, "lam must be a positive"),
    (joker.KernelRidge, {"lam": []}, InvalidParameter, "lam must be a positive"),
    (joker.KernelRidge, {"lam": "small"}, InvalidParameter, "lam must be a positive"),
    (joker.KernelRidge, {"bandwidth": "mean"}, UnknownName, "bandwidth .* must be one of"),
    (joker.KernelRidge, {"bandwidth": 0.0}, InvalidParameter, "bandwidth must be a positive"),
    (joker.KernelRidge, {"n_features": "many"}, InvalidParameter, "n_features must be a whole number or 'auto'"),
    (joker.KernelRidge, {"n_features": 0}, InvalidParameter, "n_features must be a whole number"),
    (joker.KernelRidge, {"n_features": 2.5}, InvalidParameter, "n_features must be a whole number"),
    (joker.KernelRidge, {"n_features": None, "features": "fourier"}, InvalidParameter, "features need their number"),
    (joker.KernelRidge, {"n_features": 10, "features": "cosine"}, UnknownName, "features must be one of"),
    (joker.KernelRidge, {"block_size": "big"}, InvalidParameter, "block_size must be a whole number or 'auto'"),
    (joker.KernelRidge, {"block_size": 0}, InvalidParameter, "block_size must be a whole number"),
    (joker.KernelRidge, {"max_epochs": -1}, InvalidParameter, "max_epochs must be"),
    (joker.KernelRidge, {"tol": None}, InvalidParameter, "tol must be"),
    (joker.KernelRidge, {"max_time": -1}, InvalidParameter, "max_time must be"),
    (joker.KernelRidge, {"averaging": 1}, InvalidParameter, "averaging must be"),
    (joker.KernelRidge, {"momentum": "yes"}, InvalidParameter, "momentum must be"),
    (joker.KernelRidge, {"fit_intercept": "no"}, InvalidParameter, "fit_intercept must be True or False"),
    (joker.KernelRidge, {"lam": [1.0, 2.0], "validation_fraction": 1.5}, InvalidParameter, "validation_fraction must"),
    (joker.KernelRidge, {"early_stopping": "acuracy"}, InvalidParameter, "early_stopping .*Did you mean 'accuracy'"),
    (joker.KernelRidge, {"early_stopping": 1}, InvalidParameter, "early_stopping must be False, True"),
    (joker.KernelRidge, {"early_stopping": None}, InvalidParameter, "early_stopping must be False, True"),
    (joker.KernelRidge, {"early_stopping": lambda *_: [1, 2]}, InvalidParameter, "returns a number; got list"),
    (
        joker.KernelRidge,
        {"early_stopping": True, "validation_fraction": 0},
        InvalidParameter,
        "validation_fraction must",
    ),
    (joker.KernelRidge, {"warm_start": "yes"}, InvalidParameter, "warm_start must be True or False"),
    (joker.KernelRidge, {"verbose": 2}, InvalidParameter, "verbose must be 0"),
    (joker.KernelRidge, {"verbose": "loud"}, InvalidParameter, "verbose must be 0"),
    (joker.KernelRidge, {"callbacks": TimeLimit(9)}, InvalidParameter, "callbacks must be None or a sequence"),
    (joker.KernelRidge, {"callbacks": "abc"}, InvalidParameter, "callbacks must be None or a sequence"),
    (joker.KernelRidge, {"callbacks": [TimeLimit]}, InvalidParameter, r"Use TimeLimit\(\.\.\.\), with parentheses"),
    (joker.KernelRidge, {"callbacks": [print]}, InvalidParameter, "Derive yours from it"),
    (joker.KernelRidge, {"device": "gpu"}, UnknownName, "device must name"),
    (joker.KernelRidge, {"dtype": "float16"}, UnknownName, "dtype must be one of"),
    (joker.KernelRidge, {"memory": "lots"}, InvalidParameter, "memory must be"),
    (joker.KernelHuber, {"delta": 0}, InvalidParameter, "delta must be positive"),
    (joker.KernelSVR, {"epsilon": -1}, InvalidParameter, "epsilon must be"),
    (joker.KernelLp, {"p": 1}, InvalidParameter, "p must be"),
    (joker.KernelExpectile, {"expectile": 0.0}, InvalidParameter, "expectile must be"),
    (joker.KernelTweedie, {"power": 2.5}, InvalidParameter, "power must be between 1 and 2"),
    (joker.KernelQuantile, {"quantile": 1.0}, InvalidParameter, "quantile must be"),
    (joker.KernelQuantile, {"quantile": [0.1, 2.0]}, InvalidParameter, "quantile must be"),
    (joker.KernelQuantile, {"quantile": []}, InvalidParameter, "quantile must be"),
    (joker.KernelQuantile, {"quantile": "median"}, InvalidParameter, "quantile must be"),
    (joker.KernelQuantile, {"quantile": ["low", "high"]}, InvalidParameter, "quantile must be"),
    (joker.KernelSVC, {"class_weight": "equal"}, InvalidParameter, "class_weight must be a dictionary"),
    (joker.KernelSVC, {"class_weight": {7: 2.0}}, InvalidParameter, "class_weight must name classes of y; got 7"),
    (joker.KernelSVC, {"class_weight": {0: -2.0}}, InvalidData, "weights must be at least 0"),
]


@pytest.mark.parametrize(
    ("kind", "given", "error", "sentence"),
    PARAMETERS,
    ids=[f"{kind.__name__}-{re.sub(' at 0x[0-9a-f]+', '', str(given))}" for kind, given, *_ in PARAMETERS],
)
def test_a_bad_parameter(kind: type[Any], given: dict[str, Any], error: type[Exception], sentence: str) -> None:
    model = kind(**given)  # the constructor stores, fit checks
    with pytest.raises(error, match=sentence):
        model.fit(X, C)


def test_a_misspelt_keyword() -> None:
    with pytest.raises(TypeError, match="lamda"):
        joker.KernelRidge(lamda=1.0)  # type: ignore[call-arg]


DATA: list[tuple[dict[str, Any], str]] = [
    ({"X": np.where(X > 2, np.nan, X) * np.nan, "y": Y}, "NaN"),
    ({"X": X, "y": np.where(Y > 0, np.nan, Y)}, "NaN"),
    ({"X": X, "y": Y[:-1]}, "inconsistent numbers of samples"),
    ({"X": X[:, 0], "y": Y}, "2D array"),
    ({"X": X, "y": Y, "sample_weight": np.ones(3)}, r"sample_weight must have shape \(30,\)"),
    ({"X": X, "y": Y, "sample_weight": -np.ones(30)}, "sample_weight must be at least 0"),
    ({"X": X, "y": Y, "sample_weight": np.zeros(30)}, "sample_weight must not be zero"),
    ({"X": X, "y": Y, "eval_set": X}, r"eval_set must be a pair \(X, y\)"),
    ({"X": X, "y": Y, "eval_set": (X[:, :1], Y)}, "1 features, but KernelRidge is expecting 2"),
    ({"X": X, "y": Y, "eval_set": (X, np.stack([Y, Y], axis=1))}, "as many outputs as y"),
]


@pytest.mark.parametrize(("given", "sentence"), DATA, ids=[sentence[:40] for _, sentence in DATA])
def test_bad_data_for_a_regressor(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        joker.KernelRidge().fit(**given)


def test_bad_data_for_a_classifier() -> None:
    with pytest.raises(InvalidData, match="at least two classes; got one class"):
        joker.KernelSVC().fit(X, np.zeros(30, int))
    with pytest.raises(InvalidData, match="classes of y only; found"):
        joker.KernelSVC(lam=[1.0, 2.0]).fit(X, C, eval_set=(X, C + 1))
    with pytest.raises(ValueError, match="Unknown label type"):
        joker.KernelSVC().fit(X, Y)
    with pytest.raises(
        InvalidData, match="choosing lam or the epoch needs rows to hold out; got one row for each of 4"
    ):
        joker.KernelSVC(lam=[1.0, 2.0]).fit(X[:4], np.arange(4))


def test_several_quantiles_of_several_outputs() -> None:
    with pytest.raises(InvalidData, match="y must have one column where quantile is a sequence; got 2"):
        joker.KernelQuantile(quantile=[0.1, 0.9]).fit(X, np.stack([Y, Y], axis=1))
