"""The route of a model: one kernel machine of joker that TabArena tunes, bags and ensembles.

The class has a file of its own because TabArena pickles it by the name of its module: this folder must be in
PYTHONPATH, also of worker processes. docs/tabarena.md has the commands.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from autogluon.core.constants import REGRESSION
from autogluon.core.models import AbstractModel

if TYPE_CHECKING:
    import pandas as pd

LAMBDAS = tuple(float(lam) for lam in 10.0 ** np.arange(-4, 2.1, 0.5))  # of the path; held-out rows choose one
TIME_SHARE = 0.9  # of the limit, for the fit: the rest is for the encoding and the predictions of held-out rows
MEDIAN_ROWS = 1_000  # from which the median distance is computed
EXACT_BYTES = 3  # times the kernel matrix of the rows, in float64, that a fit with the exact kernel may take
BASE_BYTES = 1_000_000_000  # of Python, torch and AutoGluon
EXACT_ROWS, FEATURES = 15_000, 4_000  # rows up to which the exact kernel is used, and features for more


class ColumnEncoder:
    """Numbers as z-scores or normal scores, with an indicator of missing values; categories one-hot."""

    def __init__(self, scaler: str, most_levels: int) -> None:
        self.scaler, self.most_levels = scaler, most_levels

    def fit(self, X: pd.DataFrame) -> ColumnEncoder:
        """Learn the columns."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

        text = X.select_dtypes(include=["category", "object", "string"]).columns.tolist()
        numbers = [name for name in X.columns if name not in text]
        rows = min(1_000, len(X))
        scale = StandardScaler() if self.scaler == "standard" else QuantileTransformer(
            n_quantiles=rows, output_distribution="normal", random_state=0
        )  # fmt: skip
        one_hot = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=self.most_levels, sparse_output=False, dtype=np.float32
        )
        impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        self.columns = ColumnTransformer(
            [("numbers", make_pipeline(impute, scale), numbers), ("categories", one_hot, text)]
        ).fit(self._plain(X, text))
        self.text = text
        return self

    def transform(self, X: pd.DataFrame) -> Any:  # (n, inputs)
        """Return the inputs of rows."""
        return self.columns.transform(self._plain(X, self.text)).astype(np.float64)

    def _plain(self, X: pd.DataFrame, text: list[str]) -> pd.DataFrame:
        """Return columns whose categories are text, with a level of their own for missing values."""
        return X.assign(**{name: X[name].astype(object).where(X[name].notna(), "missing").astype(str) for name in text})


class JokerKernelModel(AbstractModel):
    """KernelLogistic or a kernel regressor, with the λ of a path that is best on the validation rows.

    It keeps the time limit (``max_time``), the number of cores, the GPU where one is given, and the memory limit, and
    uses the validation rows that TabArena hands over for λ alone. Without them joker holds out a tenth.
    """

    ag_key = "JOKER_KERNEL"
    ag_name = "JokerKernel"
    seed_name = "random_state"
    _supported_problem_types = ("binary", "multiclass", "regression")

    def _set_default_params(self) -> None:
        defaults = {
            "kernel": "gaussian", "share": 0.5, "loss": "auto", "lam": None, "scaler": "quantile",
            "most_levels": 30, "exact_rows": EXACT_ROWS, "n_features": FEATURES,
        }  # fmt: skip
        for name, value in defaults.items():
            self._set_default_param_value(name, value)

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        return super()._get_default_auxiliary_params() | {"valid_raw_types": ["int", "float", "category"]}

    def _preprocess(self, X: pd.DataFrame, is_train: bool = False, **kwargs: Any) -> Any:
        X = super()._preprocess(X, **kwargs)
        if is_train:
            params = self._get_model_params()
            self._encoder = ColumnEncoder(params["scaler"], params["most_levels"]).fit(X)
        return self._encoder.transform(X)

    def _fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        X_val: pd.DataFrame | None = None,
        y_val: pd.Series | None = None,
        time_limit: float | None = None,
        num_cpus: int = 1,
        num_gpus: float = 0,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> None:
        started = time.perf_counter()
        import torch

        import joker

        if isinstance(num_cpus, int) and num_cpus > 0:
            torch.set_num_threads(num_cpus)
        params = self._get_model_params()
        x = self.preprocess(X, is_train=True)
        held = None if X_val is None else (self.preprocess(X_val), np.asarray(y_val))
        sigma = params["share"] * median_distance(x, params["kernel"], params["random_state"])
        left = np.inf if time_limit is None else TIME_SHARE * time_limit - (time.perf_counter() - started)
        if left <= 0:
            from autogluon.core.utils.exceptions import TimeLimitExceeded

            raise TimeLimitExceeded
        settings = {
            "kernel": params["kernel"],
            "bandwidth": sigma,
            "lam": list(LAMBDAS) if params["lam"] is None else params["lam"],
            "n_features": None if len(x) <= params["exact_rows"] else params["n_features"],
            "standardize": False,
            "max_time": left,
            "device": "cuda" if num_gpus and torch.cuda.is_available() else None,
            "random_state": params["random_state"],
        }
        self.model = self._estimator(joker, params["loss"], settings)
        import warnings

        with warnings.catch_warnings():  # what ends early, or at an edge of the path, is the business of the benchmark
            warnings.simplefilter("ignore")
            self.model.fit(x, np.asarray(y), sample_weight=sample_weight, eval_set=held)
        if hasattr(self.model, "path_"):
            del self.model.path_  # the models of the other λ
        self.params_trained["lam"] = float(self.model.lam_)

    def _estimator(self, joker: Any, loss: str, settings: dict[str, Any]) -> Any:
        if self.problem_type != REGRESSION:
            return joker.KernelLogistic(**settings)
        return joker.KernelRegressor(loss="squared" if loss == "auto" else loss, **settings)

    @classmethod
    def warmup(cls, **kwargs: Any) -> None:
        """Import joker, and compile what a GPU needs; on a CPU this is the import alone."""
        import joker

        joker.warmup()

    def _get_default_resources(self) -> tuple[int, float]:
        from autogluon.common.utils.resource_utils import ResourceManager

        return ResourceManager.get_cpu_count(only_physical_cores=True), 0

    @classmethod
    def _estimate_memory_usage_static(
        cls, *, X: pd.DataFrame, hyperparameters: dict[str, Any] | None = None, **kwargs: Any
    ) -> int:
        given = hyperparameters or {}
        n, d = len(X), sum(min(given.get("most_levels", 30), 50) if X[name].dtype == "category" else 2 for name in X)
        exact = n <= given.get("exact_rows", EXACT_ROWS)
        kernel = EXACT_BYTES * 8 * n**2 if exact else 8 * FEATURES**2 * 3
        return int(BASE_BYTES + 6 * 8 * n * d + kernel)


def median_distance(x: Any, kernel: str, seed: int) -> float:  # (n, inputs)
    """Return the median distance of the kernel between two rows of a sample; 1 where all are equal."""
    from scipy.spatial.distance import pdist

    rows = np.random.default_rng(seed).permutation(len(x))[:MEDIAN_ROWS]
    distances = pdist(x[rows], "cityblock" if kernel == "laplacian" else "euclidean")
    median = float(np.median(distances)) if len(distances) else 0.0
    return median or float(distances.mean() if len(distances) else 0.0) or 1.0
