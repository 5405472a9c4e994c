"""The tables of the paper: its data sets, the settings of its models, and their results.

J. Zhang and Z. Lai, "Joker: Joint Optimization Framework for Lightweight Kernel Machines" (ICML 2025): the tables of
data sets and of hyperparameters in its appendix, and the table of results, measured on one NVIDIA RTX 3080.
"""

from __future__ import annotations

from dataclasses import dataclass

from joker.errors import InvalidParameter, UnknownName

MODELS = ("krr", "huber", "svm", "klr", "svr")
MINUTE, HOUR, GB = 60.0, 3600.0, 10**9
RELATIVE, RMSE, AUC, ACCURACY = "relative_error", "rmse", "auc", "accuracy"
FALLING = (RELATIVE, RMSE)  # metrics for which lower values are better


@dataclass(frozen=True)
class Published:
    """A row of the table of results: mean and standard deviation of each metric, time and memory."""

    scores: dict[str, tuple[float, float]]
    seconds: float
    peak_bytes: float  # of GPU memory


@dataclass(frozen=True)
class Choice:
    """The settings of a model for a data set."""

    loss: str
    lam: float
    n_features: int | None  # None is the exact kernel
    kernel: str
    block_size: int
    steps: int
    parameters: dict[str, float]  # of the loss: δ or ε


@dataclass(frozen=True)
class PaperSet:
    """A data set of the paper, or a smaller one that replaces it."""

    name: str
    task: str  # "regression" or "classification"
    rows: int
    inputs: int
    classes: int  # 0 for regression
    share: float  # of the rows that are training rows
    metrics: tuple[str, ...]  # the first one is used for early stopping
    likeness: str | None = None  # the data set that it replaces

    @property
    def known_as(self) -> str:
        """The data set whose settings and results are used."""
        return self.likeness or self.name

    @property
    def part(self) -> float:
        """The number of its rows, relative to the data set that it replaces."""
        return self.rows / SETS[self.known_as].rows


SETS = {
    data.name: data
    for data in (
        PaperSet("msd", "regression", 515_345, 90, 0, 463_715 / 515_345, (RELATIVE,)),
        PaperSet("hepc", "regression", 2_049_280, 11, 0, 0.9, (RMSE,)),
        PaperSet("susy", "classification", 5_000_000, 18, 2, 0.8, (AUC, ACCURACY)),
        PaperSet("higgs", "classification", 11_000_000, 28, 2, 0.8, (AUC, ACCURACY)),
        PaperSet("cifar5m", "classification", 6_002_688, 3_072, 10, 0.8, (ACCURACY,)),
        PaperSet("higgs33k", "classification", 33_461, 28, 2, 0.8, (AUC, ACCURACY), likeness="higgs"),
    )
}

# λ, number of features, kernel, block size and steps of krr, huber and svm; None is the exact kernel.
_SHARED: dict[str, tuple[float, int | None, str, int, int]] = {
    "msd": (1.0, None, "gaussian", 2048, 10_000),
    "hepc": (2.0**-7, 50_000, "laplacian", 512, 25_000),
    "susy": (2.0**-5, 100_000, "laplacian", 512, 10_000),
    "higgs": (2.0**-7, 100_000, "laplacian", 512, 50_000),
    "cifar5m": (2.0**-7, 200_000, "gaussian", 512, 40_000),
}
_LOGISTIC: dict[str, tuple[float, int | None, str, int, int]] = {
    "susy": (2.0, 100_000, "laplacian", 1024, 40_000),
    "higgs": (2.0**-3, 100_000, "laplacian", 1024, 50_000),
    "cifar5m": (2.0**-7, 200_000, "gaussian", 1024, 50_000),
}
_SVR_FEATURES = {"msd": None, "hepc": 10_000}  # the only setting in which SVR differs
_DELTA = {"msd": 2.0}
_EPSILON = 0.25


def _regression(metric: str, unit: float, mean: float, deviation: float, minutes: float, gigabytes: float) -> Published:
    return Published({metric: (mean * unit, deviation * unit)}, minutes * MINUTE, gigabytes * GB)


def _classes(
    auc: tuple[float, float] | None, accuracy: tuple[float, float], seconds: float, gigabytes: float
) -> Published:
    """Return a row of results from percentages."""
    found = {AUC: auc, ACCURACY: accuracy}
    scores = {name: (pair[0] / 100, pair[1] / 100) for name, pair in found.items() if pair}
    return Published(scores, seconds, gigabytes * GB)


_RESULTS = {
    ("msd", "krr"): _regression(RELATIVE, 1e-3, 4.4868, 0.0012, 35, 0.7),
    ("msd", "huber"): _regression(RELATIVE, 1e-3, 4.5058, 0.0109, 36, 0.7),
    ("msd", "svr"): _regression(RELATIVE, 1e-3, 4.6004, 0.0073, 35, 0.7),
    ("hepc", "krr"): _regression(RMSE, 1e-2, 4.7170, 0.0007, 31, 1.5),
    ("hepc", "huber"): _regression(RMSE, 1e-2, 4.7160, 0.0004, 36, 1.5),
    ("hepc", "svr"): _regression(RMSE, 1e-2, 4.8376, 0.0342, 27, 1.5),
    ("susy", "krr"): _classes((87.63, 0.00), (80.41, 0.01), 25 * MINUTE, 1.2),
    ("susy", "huber"): _classes((87.64, 0.00), (80.41, 0.01), 23 * MINUTE, 1.2),
    ("susy", "svm"): _classes((87.72, 0.01), (80.44, 0.02), 25 * MINUTE, 1.2),
    ("susy", "klr"): _classes((87.73, 0.01), (80.42, 0.01), 1.1 * HOUR, 1.7),
    ("higgs", "krr"): _classes((81.94, 0.17), (74.03, 0.14), 1.0 * HOUR, 1.9),
    ("higgs", "huber"): _classes((81.83, 0.27), (74.01, 0.21), 57 * MINUTE, 1.9),
    ("higgs", "svm"): _classes((82.40, 0.06), (74.41, 0.05), 56 * MINUTE, 1.9),
    ("higgs", "klr"): _classes((82.11, 0.03), (74.17, 0.01), 1.6 * HOUR, 2.6),
    ("cifar5m", "krr"): _classes(None, (73.32, 0.01), 2.1 * HOUR, 5.3),
    ("cifar5m", "huber"): _classes(None, (73.66, 0.01), 2.1 * HOUR, 5.3),
    ("cifar5m", "svm"): _classes(None, (74.47, 0.02), 2.0 * HOUR, 5.3),
    ("cifar5m", "klr"): _classes(None, (74.88, 0.08), 3.2 * HOUR, 5.9),
}


def set_named(name: str) -> PaperSet:
    """Return a data set by its name."""
    if name not in SETS:
        raise UnknownName.among("the data set", name, SETS)
    return SETS[name]


def model_named(model: str, data: PaperSet) -> str:
    """Return the model for a data set: the SVM of the paper is SVR for regression.

    >>> model_named("svm", SETS["hepc"]), model_named("svm", SETS["higgs"])
    ('svr', 'svm')
    """
    if model not in MODELS:
        raise UnknownName.among("model", model, MODELS)
    meant = "svr" if (model, data.task) == ("svm", "regression") else model
    if (data.known_as, meant) not in _RESULTS:
        fitting = ", ".join(name for known, name in _RESULTS if known == data.known_as)
        raise InvalidParameter(
            f"model must be one that the paper has for {data.name}, a data set for {data.task}; got {model!r}. "
            f"Use one of {fitting}."
        )
    return meant


def settings_of(model: str, data: PaperSet) -> Choice:
    """Return the paper's settings of a model for a data set."""
    meant, known = model_named(model, data), data.known_as
    lam, m, kernel, block_size, steps = (_LOGISTIC if meant == "klr" else _SHARED)[known]
    m = _SVR_FEATURES[known] if meant == "svr" else m
    loss, parameters = {
        "krr": ("squared", {}),
        "huber": ("huber", {"delta": _DELTA.get(known, 1.0)}),
        "svm": ("squared_hinge", {}),
        "klr": ("logistic", {}),
        "svr": ("epsilon_insensitive", {"epsilon": _EPSILON}),
    }[meant]
    return Choice(loss, lam, m, kernel, block_size, steps, parameters)


def published(model: str, data: PaperSet) -> Published:
    """Return the results of the paper for a model on a data set."""
    return _RESULTS[data.known_as, model_named(model, data)]
