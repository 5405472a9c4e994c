"""Words of scikit-learn and other libraries, translated to those of joker in error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from numbers import Real
from typing import Any, NoReturn

from joker import kernels
from joker.errors import UnknownName, UnknownSetting

KERNELS = {
    "rbf": "Use kernel='gaussian', with bandwidth = (2 * gamma) ** -0.5.",
    "radial": "Use kernel='gaussian'.",
    "squared_exponential": "Use kernel='gaussian'.",
    "poly": "Use kernel='polynomial', or joker.kernels.Polynomial(degree=2).",
    "matern": "Use kernel='matern12', 'matern32' or 'matern52'.",
    "exponential": "Use kernel='matern12'.",
    "laplace": "Use kernel='laplacian'.",
    "l1": "Use kernel='laplacian'.",
    "sigmoid": "It is not positive definite. Use kernel='gaussian'.",
}
LOSSES = {
    "mse": "squared",
    "l2": "squared",
    "squared_error": "squared",
    "mae": "absolute",
    "l1": "absolute",
    "absolute_error": "absolute",
    "pinball": "quantile",
    "log": "logistic",
    "log_loss": "logistic",
    "cross_entropy": "logistic",
    "binary_crossentropy": "logistic",
    "multinomial": "softmax",
    "categorical_crossentropy": "softmax",
    "squared_epsilon": "squared_epsilon_insensitive",
}


def _lam_of_c(value: Any) -> str:
    return f"It is 1 / lam. Use lam={1 / value:g}." if _positive(value) else "It is 1 / lam. Use lam=1.0."


def _bandwidth_of_gamma(value: Any) -> str:
    rule = "bandwidth is (2 * gamma) ** -0.5 for the Gaussian kernel"
    return f"{rule}. Use bandwidth={(2 * value) ** -0.5:.6g}." if _positive(value) else f"{rule}. Use bandwidth='auto'."


def _renamed(name: str) -> Callable[[Any], str]:
    return lambda value: f"It is called {name}. Use {name}={value!r}."


PARAMETERS: Mapping[str, Callable[[Any], str]] = {
    "C": _lam_of_c,
    "gamma": _bandwidth_of_gamma,
    "alpha": _renamed("lam"),
    "sigma": _renamed("bandwidth"),
    "length_scale": _renamed("bandwidth"),
    "max_iter": _renamed("max_epochs"),
    "n_components": _renamed("n_features"),
    "seed": _renamed("random_state"),
    "eps": _renamed("tol"),
    "probability": lambda value: f"Use calibrate={bool(value)!r}, or KernelLogistic, which has probabilities.",
    "degree": lambda value: f"Use kernel=joker.kernels.Polynomial(degree={value!r}).",
    "coef0": lambda value: "Use kernel=joker.kernels.Polynomial(degree=2).",
    "cache_size": lambda value: "Use memory='500MB', which limits all memory.",
    "n_jobs": lambda value: "Use torch.set_num_threads.",
    "decision_function_shape": lambda value: "Several classes always have a column each; see multi_class.",
}


def check_parameters(owner: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise an error for a parameter that an estimator does not have, with the one that replaces it."""
    names = set(known)
    for name, value in given.items():
        if name in names or "__" in name:
            continue
        close = get_close_matches(name, sorted(names), n=1)
        if name in PARAMETERS:
            remedy = PARAMETERS[name](value)
        elif close:
            remedy = f"Did you mean {close[0]!r}?"
        else:
            remedy = f"Use one of {', '.join(sorted(names))}."
        raise UnknownSetting(f"{owner} has no parameter {name!r}; got an unexpected keyword argument. {remedy}")


def _positive(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0


def refuse_foreign_kernel(kernel: Any) -> None:
    """Raise an error for a kernel that has another name here."""
    if isinstance(kernel, str) and kernel.lower() in KERNELS:
        raise UnknownName(
            f"kernel must be one of {', '.join(sorted(kernels.KERNELS))}, 'precomputed', a Kernel or a function; "
            f"got {kernel!r}. "
            f"{KERNELS[kernel.lower()]}"
        )


def refuse_loss(loss: str, suited: list[str]) -> NoReturn:
    """Raise an error for an unknown loss: with its name here, or with the names of those that suit."""
    meant = LOSSES.get(loss.lower())
    if meant in suited:
        raise UnknownName(
            f"loss must be one of {', '.join(sorted(suited))}, or a Loss; got {loss!r}. Use loss={meant!r}."
        )
    raise UnknownName.among("loss", loss, suited)
