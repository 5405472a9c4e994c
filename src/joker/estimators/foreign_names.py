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
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
    "reg:tweedie": "tweedie",
    "asymmetric_least_squares": "expectile",
    "squared_epsilon": "squared_epsilon_insensitive",
}


def _lam_of_c(value: Any) -> str:
    return f"It is 1 / lam. Use lam={1 / value:g}." if _positive(value) else "It is 1 / lam. Use lam=1.0."


def _bandwidth_of_gamma(value: Any) -> str:
    rule = "bandwidth is (2 * gamma) ** -0.5 for the Gaussian kernel"
    return f"{rule}. Use bandwidth={(2 * value) ** -0.5:.6g}." if _positive(value) else f"{rule}. Use bandwidth='auto'."


def _renamed(name: str) -> Callable[[Any], str]:
    return lambda value: f"It is called {name}. Use {name}={value!r}."


def _said(remedy: str) -> Callable[[Any], str]:
    return lambda value: remedy


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


SEARCHED = "The search finds it. Leave it out; KernelRidge, KernelClassifier and joker.tune have settings of kernels."
TABLE_REMEDIES = {
    "n_estimators iterations num_boost_round num_iterations max_iter n_iter n_trials quality preset presets": (
        "The search finds the settings. Use effort=1 to 5 for a smaller or larger search."
    ),
    "max_depth depth max_leaves num_leaves max_leaf_nodes max_bin learning_rate eta gamma": SEARCHED,
    "booster boosting_type subsample colsample_bytree feature_fraction bagging_fraction max_features": SEARCHED,
    "min_child_weight min_child_samples min_samples_leaf min_data_in_leaf": SEARCHED,
    "reg_lambda reg_alpha l2_leaf_reg l2_regularization lam alpha C kernel bandwidth": SEARCHED,
    "early_stopping early_stopping_rounds validation_fraction n_iter_no_change od_wait": (
        "Rows are held out by the fit, and each model stops by itself. Leave it out; see cv, groups and time."
    ),
    "cat_features categorical_feature categorical_features enable_categorical": (
        "Use columns={'name': 'category'}; columns of text are categories without it."
    ),
    "nthread num_threads thread_count": "Use n_jobs for processes, and torch.set_num_threads for threads.",
    "verbosity logging_level": "It is called verbose. Use verbose=1.",
    "eval_metric metric": "Use scoring, with the name of a scikit-learn scorer.",
    "scale_pos_weight is_unbalance auto_class_weights class_weights": (
        "Use class_weight='balanced', or a dictionary, with JokerClassifier."
    ),
    "objective loss_function criterion": "Use for example loss='absolute' with JokerRegressor.",
    "tree_method task_type device_type": "Use device='cpu' or device='cuda'.",
    "label target": "Use fit(X, y), where y may be the name of a column of X.",
}
TABLE_PARAMETERS: Mapping[str, Callable[[Any], str]] = {
    **{name: _said(remedy) for names, remedy in TABLE_REMEDIES.items() for name in names.split()},
    **dict.fromkeys(("time_limit", "time_budget", "timeout"), _renamed("max_time")),
    **dict.fromkeys(("seed", "random_seed"), _renamed("random_state")),
}


def check_parameters(
    owner: str,
    given: Mapping[str, Any],
    known: Iterable[str],
    foreign: Mapping[str, Callable[[Any], str]] = PARAMETERS,
) -> None:
    """Raise an error for a parameter that an estimator does not have, with the one that replaces it."""
    names = set(known)
    for name, value in given.items():
        if name in names or "__" in name:
            continue
        close = get_close_matches(name, sorted(names), n=1)
        if name in foreign:
            remedy = foreign[name](value)
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


def refuse_foreign_bandwidth(bandwidth: Any) -> None:
    """Raise an error for a rule of another library."""
    if isinstance(bandwidth, str) and bandwidth == "scale":
        raise UnknownName(
            "bandwidth must be a positive number, 'auto', 'median' or 'paper'; got 'scale', which in SVC means "
            "gamma = 1 / (X.shape[1] * X.var()). Use bandwidth='auto', or for that gamma "
            "bandwidth=(X.shape[1] * X.var() / 2) ** 0.5 and standardize=False."
        )


def refuse_loss(loss: str, suited: list[str]) -> NoReturn:
    """Raise an error for an unknown loss: with its name here, or with the names of those that suit."""
    meant = LOSSES.get(loss.lower())
    if meant in suited:
        raise UnknownName(
            f"loss must be one of {', '.join(sorted(suited))}, or a Loss; got {loss!r}. Use loss={meant!r}."
        )
    raise UnknownName.among("loss", loss, suited)
