"""The models that `tables.py` compares, each with the preparation of a table that it needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 0
Model = Any  # fit, predict and, for classes, predict_proba


@dataclass(frozen=True)
class Budget:
    """How long a model may search its settings."""

    limit: float = 60.0  # seconds, of a model that searches until its time is up
    effort: int = 3  # of joker


def _numbers(frame: Any) -> list[str]:
    return [name for name in frame if frame[name].dtype.kind in "iufb"]


def _words(frame: Any) -> list[str]:
    numbers = set(_numbers(frame))
    return [name for name in frame if name not in numbers]


class Prepared:
    """A model with a function that prepares its frame."""

    def __init__(self, model: Model, prepare: Callable[[Any, Any], Any], **fit: Any) -> None:
        self.model, self.prepare, self.fit_options = model, prepare, fit

    def fit(self, frame: Any, y: Any) -> None:
        self.frame = frame
        self.model.fit(self.prepare(frame, frame), y, **self.fit_options)

    def predict(self, frame: Any) -> Any:
        return np.asarray(self.model.predict(self.prepare(self.frame, frame))).ravel()

    def predict_proba(self, frame: Any) -> Any:
        return np.asarray(self.model.predict_proba(self.prepare(self.frame, frame)))

    @property
    def classes_(self) -> Any:
        return self.model.classes_


def categories(train: Any, frame: Any) -> Any:
    """Words as pandas categories; a level that the training rows lack is missing."""
    import pandas as pd

    frame = frame.copy()
    for name in _words(train):
        levels = sorted(train[name].dropna().astype(str).unique())
        known = frame[name].astype(str)
        frame[name] = pd.Categorical(known.where(frame[name].notna() & known.isin(levels)), categories=levels)
    return frame


def few_categories(train: Any, frame: Any) -> Any:
    """The same with the 254 most frequent levels of each column, the most that scikit-learn's boosting takes."""
    import pandas as pd

    frame = frame.copy()
    for name in _words(train):
        levels = sorted(train[name].dropna().astype(str).value_counts().index[:254])
        known = frame[name].astype(str)
        frame[name] = pd.Categorical(known.where(frame[name].notna() & known.isin(levels)), categories=levels)
    return frame


def codes(train: Any, frame: Any) -> Any:
    """Words as the numbers of their levels, −1 where missing."""
    frame = categories(train, frame)
    for name in _words(train):
        frame[name] = frame[name].cat.codes.astype(float)
    return frame.astype(float)


def filled_codes(train: Any, frame: Any) -> Any:
    """Codes, with the median of the training rows in place of missing numbers."""
    whole = codes(train, train)
    return codes(train, frame).fillna(whole.median()).fillna(0.0)


def filled_categories(train: Any, frame: Any) -> Any:
    """Categories, with the median of the training rows in place of missing numbers."""
    numbers = _numbers(train)
    frame = categories(train, frame)
    frame[numbers] = frame[numbers].astype(float).fillna(train[numbers].astype(float).median()).fillna(0.0)
    return frame


def words(train: Any, frame: Any) -> Any:
    """Words as text, with a word for missing values."""
    frame = frame.copy()
    for name in _words(train):
        frame[name] = frame[name].astype(str).where(frame[name].notna(), "missing")
    return frame


def by_hand(train: Any, frame: Any) -> Any:
    """The usual encoding of a kernel method: one-hot, mean imputation and z-scores, by scikit-learn."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def made() -> Any:
        one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=60, sparse_output=False)
        numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        both = make_column_transformer((numbers, _numbers(train)), (one_hot, _words(train)))
        return both.fit(words(train, train))

    key = id(train)
    if key not in _ENCODERS:
        _ENCODERS.clear()
        _ENCODERS[key] = made()
    return _ENCODERS[key].transform(words(train, frame)).astype(np.float32)


_ENCODERS: dict[int, Any] = {}


def boosting(task: str, budget: Budget, **settings: Any) -> Model:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if task == "classification" else HistGradientBoostingRegressor
    return Prepared(kind(random_state=SEED, categorical_features="from_dtype", **settings), few_categories)


def forest(task: str, budget: Budget) -> Model:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if task == "classification" else RandomForestRegressor
    return Prepared(kind(random_state=SEED), filled_codes)


def lightgbm(task: str, budget: Budget, **settings: Any) -> Model:
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if task == "classification" else LGBMRegressor
    return Prepared(kind(random_state=SEED, verbose=-1, n_jobs=1, **settings), categories)


def catboost(task: str, budget: Budget) -> Model:
    return _catboost(task, codes)


def catboost_categories(task: str, budget: Budget, **settings: Any) -> Model:
    return _catboost(task, words, **settings)


def _catboost(task: str, prepare: Callable[[Any, Any], Any], **settings: Any) -> Model:
    from catboost import CatBoostClassifier, CatBoostRegressor

    class Own(Prepared):
        def fit(self, frame: Any, y: Any) -> None:
            self.fit_options = {"cat_features": _words(frame) if prepare is words else []}
            super().fit(frame, y)

    kind = CatBoostClassifier if task == "classification" else CatBoostRegressor
    return Own(kind(random_seed=SEED, verbose=False, allow_writing_files=False, thread_count=1, **settings), prepare)


def tuned(task: str, budget: Budget) -> Model:
    """`joker.tune` on the encoding made by hand; regression targets are scaled."""
    import joker

    class Tune:
        def fit(self, x: Any, y: Any) -> None:
            y = np.asarray(y)
            self.mean, self.scale = (y.mean(), y.std()) if task == "regression" else (0.0, 1.0)
            targets = (y - self.mean) / self.scale if task == "regression" else y
            self.inner = joker.tune(x, targets, task=task, random_state=SEED).estimator
            self.classes_ = getattr(self.inner, "classes_", None)

        def predict(self, x: Any) -> Any:
            found = self.inner.predict(x)
            return found * self.scale + self.mean if task == "regression" else found

        def predict_proba(self, x: Any) -> Any:
            f = np.asarray(self.inner.decision_function(x))
            f = np.stack([-f, f], axis=1) if f.ndim == 1 else f
            p = np.exp(f - f.max(axis=1, keepdims=True))
            return p / p.sum(axis=1, keepdims=True)

    return Prepared(Tune(), by_hand)


def svm(task: str, budget: Budget) -> Model:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, SVR

    model = SVC() if task == "classification" else SVR()
    grid = {"C": [0.1, 1, 10, 100], "gamma": ["scale", 0.01, 0.1]}
    return Prepared(GridSearchCV(model, grid, cv=3), by_hand)


def xrfm(task: str, budget: Budget) -> Model:
    """xRFM with its own rounds of feature learning; a fifth of the rows chooses the round."""
    return Prepared(_Xrfm(task, budget.limit, searched=False), by_hand)


def searched_xrfm(task: str, budget: Budget) -> Model:
    """xRFM with a random search, as its authors do: the same fifth of the rows chooses settings and round."""
    return Prepared(_Xrfm(task, budget.limit, searched=True), by_hand)


class _Xrfm:
    """xRFM: its default settings, and others at random as long as the time allows one more fit like the longest."""

    def __init__(self, task: str, limit: float, searched: bool) -> None:
        import xrfm

        self.kind, self.task, self.limit, self.searched = xrfm.xRFM, task, limit, searched

    def fit(self, x: Any, y: Any) -> None:
        import torch

        classes = self.task == "classification"
        self.classes_, y = np.unique(y, return_inverse=True) if classes else (None, np.asarray(y))
        random, cut = np.random.default_rng(SEED), len(x) // 5
        rows = random.permutation(len(x))
        tensors = []
        for part in (rows[cut:], rows[:cut]):
            target = torch.from_numpy(np.asarray(y)[part]).float()
            if classes:
                target = torch.nn.functional.one_hot(target.long(), len(self.classes_)).float()
            tensors += [torch.from_numpy(x[part]).float(), target if target.ndim > 1 else target[:, None]]
        self.tried, self.inner, best, longest = 0, None, np.inf, 0.0
        started = time.perf_counter()
        while self.inner is None or (self.searched and time.perf_counter() - started + longest < 0.8 * self.limit):
            before = time.perf_counter()
            given = None if self.inner is None else _xrfm_settings(random)
            try:
                model = self._fitted(given, tensors, 0.8 * self.limit - (before - started))
                wrong = self._wrong(model, *tensors[2:])
            except RuntimeError:  # a kernel matrix that could not be factorised
                wrong = np.inf
            longest, self.tried = max(longest, time.perf_counter() - before), self.tried + 1
            if self.inner is None or wrong < best:
                self.inner, best = model, wrong

    def _fitted(self, settings: dict[str, Any] | None, tensors: list[Any], seconds: float) -> Any:
        import torch

        metric = "accuracy" if self.task == "classification" else "mse"
        common = {"device": torch.device("cpu"), "tuning_metric": metric, "verbose": False}
        model = self.kind(settings, time_limit_s=seconds, **common)
        model.fit(*tensors)
        return model

    def _wrong(self, model: Any, x: Any, y: Any) -> float:
        """Return the share of wrong classes, or the squared error, of the rows that choose."""
        if self.task == "classification":
            p = np.asarray(model.predict_proba(x))
            return float(np.mean(p.argmax(axis=1) != np.asarray(y).argmax(axis=1)))
        found = float(np.mean((np.asarray(model.predict(x)).ravel() - np.asarray(y)[:, 0]) ** 2))
        return found if np.isfinite(found) else np.inf

    def predict(self, x: Any) -> Any:
        import torch

        if self.task == "classification":
            return self.classes_[self.predict_proba(x).argmax(axis=1)]
        return np.asarray(self.inner.predict(torch.from_numpy(x).float())).ravel()

    def predict_proba(self, x: Any) -> Any:
        import torch

        return np.asarray(self.inner.predict_proba(torch.from_numpy(x).float()))


def _xrfm_settings(random: Any) -> dict[str, Any]:
    """Draw settings of xRFM from the ranges of its authors."""
    exponent = random.uniform(0.7, 1.4)
    general = random.uniform() < 0.8
    shape = (
        {"kernel": "lpq", "norm_p": exponent + (2 - exponent) * random.uniform(0, 0.8)} if general else {"kernel": "l2"}
    )
    bandwidth, reg = 10 ** random.uniform(np.log10(0.5), np.log10(200)), 10 ** random.uniform(-6, 1)
    size = {"exponent": exponent, "bandwidth": bandwidth, "bandwidth_mode": "constant"}
    return {
        "model": {**shape, **size, "diag": bool(random.uniform() < 0.5)},
        "fit": {
            "get_agop_best_model": True, "return_best_params": True, "reg": reg, "iters": 5, "early_stop_rfm": True,
            "early_stop_multiplier": 1.1,
        },
    }  # fmt: skip


def realmlp(task: str, budget: Budget) -> Model:
    """RealMLP with its default settings, for rows with categories and without missing numbers."""
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    kind = RealMLP_TD_Classifier if task == "classification" else RealMLP_TD_Regressor
    return Prepared(kind(device="cpu", n_cv=1, n_refit=0, n_threads=1, random_state=SEED), filled_categories)


def joker_table(task: str, budget: Budget) -> Model:
    """`JokerClassifier` or `JokerRegressor` on the frame as it is."""
    import joker

    kind = joker.JokerClassifier if task == "classification" else joker.JokerRegressor
    return kind(random_state=SEED, effort=budget.effort)


MODELS: dict[str, Callable[[str, Budget], Model]] = {
    "joker": joker_table,
    "joker.tune": tuned,
    "HistGradientBoosting": boosting,
    "RandomForest": forest,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
    "CatBoost, categories": catboost_categories,
    "xRFM": xrfm,
    "xRFM, searched": searched_xrfm,
    "RealMLP": realmlp,
    "SVM": svm,
}
TREES = ("HistGradientBoosting", "RandomForest", "LightGBM", "CatBoost", "CatBoost, categories")
