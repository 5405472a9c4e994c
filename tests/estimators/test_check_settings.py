"""Parameters are checked without data, by the errors that a fit raises."""

from typing import Any

import numpy as np
import pytest

import joker
from joker import kernels
from joker.callbacks import TimeLimit
from joker.errors import InvalidParameter

X = np.random.default_rng(0).normal(size=(120, 3))
Y = np.sin(2 * X[:, 0])
LABELS = np.digitize(Y, [-0.5, 0.5])

BAD: list[tuple[type[Any], dict[str, Any], str]] = [
    (joker.KernelRegressor, {"loss": "hubber"}, "Did you mean 'huber'"),
    (joker.KernelRegressor, {"loss": "hinge"}, "for regression.*Use KernelClassifier"),
    (joker.KernelRegressor, {"loss": "squared", "delta": 2.0}, "'squared' must be among"),
    (joker.KernelClassifier, {"loss": "squared"}, "for classification.*Use KernelRegressor"),
    (joker.KernelSVC, {"loss": "logistic"}, "loss of KernelSVC"),
    (joker.KernelSVC, {"class_weight": "equal"}, "class_weight must be a dictionary"),
    (joker.KernelSVC, {"class_weight": np.ones(2)}, "class_weight must be a dictionary"),
    (joker.KernelHuber, {"delta": 0}, "delta must be positive"),
    (joker.KernelSVR, {"epsilon": -1}, "epsilon must be"),
    (joker.KernelLp, {"p": 1}, "p must be"),
    (joker.KernelQuantile, {"quantile": [0.1, 2.0]}, "quantile must be"),
    (joker.KernelQuantile, {"quantile": []}, "quantile must be"),
    (joker.KernelQuantile, {"quantile": [[0.5]]}, "quantile must be"),
    (joker.KernelRidge, {"lam": [1.0, 0.0]}, "lam must be a positive"),
    (joker.KernelRidge, {"kernel": "gausian"}, "Did you mean 'gaussian'"),
    (joker.KernelRidge, {"bandwidth": "mean"}, "bandwidth .* must be one of"),
    (joker.KernelRidge, {"bandwidth": -1.0}, "bandwidth must be a positive"),
    (joker.KernelRidge, {"kernel": "linear", "bandwidth": -1.0}, "bandwidth must be a positive"),
    (joker.KernelRidge, {"n_features": 0}, "n_features must be a whole number"),
    (joker.KernelRidge, {"n_features": "many"}, "n_features must be a whole number or 'auto'"),
    (joker.KernelRidge, {"n_features": None, "features": "fourier"}, "features need their number"),
    (joker.KernelRidge, {"n_features": 10, "features": "cosine"}, "features must be one of"),
    (joker.KernelRidge, {"features": "tensor_sketch"}, "needs a polynomial kernel"),
    (joker.KernelRidge, {"n_features": 7, "features": "fourier_pairs"}, "n_features must be even"),
    (joker.KernelRidge, {"block_size": 0}, "block_size must be a whole number"),
    (joker.KernelRidge, {"block_size": "big"}, "block_size must be a whole number or 'auto'"),
    (joker.KernelRidge, {"max_epochs": -1}, "max_epochs must be"),
    (joker.KernelRidge, {"tol": None}, "tol must be"),
    (joker.KernelRidge, {"max_time": -1}, "max_time must be"),
    (joker.KernelRidge, {"averaging": 1}, "averaging must be"),
    (joker.KernelRidge, {"momentum": "yes"}, "momentum must be"),
    (joker.KernelRidge, {"fit_intercept": "no"}, "fit_intercept must be"),
    (joker.KernelRidge, {"standardize": 1}, "standardize must be"),
    (joker.KernelRidge, {"early_stopping": "acuracy"}, "Did you mean 'accuracy'"),
    (joker.KernelRidge, {"validation_fraction": 1.5}, "validation_fraction must be"),
    (joker.KernelRidge, {"warm_start": "yes"}, "warm_start must be"),
    (joker.KernelRidge, {"device": "gpu"}, "device must name"),
    (joker.KernelRidge, {"dtype": "float16"}, "dtype must be one of"),
    (joker.KernelRidge, {"precision": "half"}, "precision must be one of"),
    (joker.KernelRidge, {"precision": "float64", "dtype": "float32"}, "precision and dtype must agree"),
    (joker.KernelRidge, {"memory": "lots"}, "memory must be"),
    (joker.KernelRidge, {"callbacks": TimeLimit(9)}, "callbacks must be None or a sequence"),
    (joker.KernelRidge, {"verbose": 2}, "verbose must be 0"),
]


@pytest.mark.parametrize(
    ("kind", "given", "sentence"), BAD, ids=[f"{kind.__name__}-{sentence[:40]}" for kind, _, sentence in BAD]
)
def test_a_bad_parameter_is_found_without_data_as_fit_finds_it(
    kind: type[Any], given: dict[str, Any], sentence: str
) -> None:
    model = kind(**given)
    with pytest.raises(InvalidParameter, match=sentence) as checked:
        model.check_settings()
    with pytest.raises(InvalidParameter) as fitted:
        model.fit(X, LABELS)
    assert (type(checked.value), str(checked.value)) == (type(fitted.value), str(fitted.value))


NEEDS_INPUTS: list[tuple[dict[str, Any], str]] = [
    ({"bandwidth": [1.0, 2.0]}, r"bandwidth must have shape \(3,\)"),
    ({"bandwidth": [[1.0, 2.0, 3.0]]}, r"bandwidth must have shape \(3,\)"),
    ({"bandwidth": [1.0, -2.0, 3.0]}, "found -2 for input 1"),
    ({"bandwidth": None}, "bandwidth must be a positive"),
    ({"bandwidth": [1.0, 2.0, 3.0], "kernel": "linear"}, "bandwidth must be left out"),
    ({"kernel": "linear", "n_features": 7}, "n_features must be the number of inputs"),
]


@pytest.mark.parametrize(("given", "sentence"), NEEDS_INPUTS, ids=[sentence for _, sentence in NEEDS_INPUTS])
def test_the_number_of_inputs_finds_more(given: dict[str, Any], sentence: str) -> None:
    model = joker.KernelRidge(**given)
    model.check_settings()
    with pytest.raises(InvalidParameter, match=sentence) as checked:
        model.check_settings(n_inputs=3)
    with pytest.raises(InvalidParameter) as fitted:
        model.fit(X, Y)
    assert str(checked.value) == str(fitted.value)


def test_good_parameters_pass_and_nothing_is_changed() -> None:
    good: list[Any] = [
        joker.KernelRidge(bandwidth=np.ones(3), n_features=None, memory="1GB"),
        joker.KernelRidge(kernel="linear", n_features=3, random_state=np.random.RandomState(0)),
        joker.KernelRidge(kernel=kernels.Polynomial(degree=2), features="tensor_sketch", n_features=10**9),
        joker.KernelQuantile(quantile=[0.1, 0.9], early_stopping="r2", callbacks=[TimeLimit(9)]),
        joker.KernelSVC(class_weight={"a": 2.0}, lam=[0.1, 1.0], features="structured"),
    ]
    for model in good:
        before = dict(vars(model))
        model.check_settings()
        model.check_settings(n_inputs=3)
        assert vars(model) == before
    state = np.random.RandomState(0)
    joker.KernelRidge(random_state=state).check_settings()
    assert state.randint(100) == np.random.RandomState(0).randint(100)
