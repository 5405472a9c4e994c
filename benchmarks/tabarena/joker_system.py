"""The route of a system: JokerClassifier and JokerRegressor on the raw table, with their own search.

Like the model, the class has a file of its own: TabArena pickles it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pandas as pd
from tabarena.benchmark.exec_models import ExternalSystemModel

if TYPE_CHECKING:
    from collections.abc import Callable

TIME_SHARE = 0.85  # of the limit, for the search: a table fit may exceed its limit by the step that it is in
MEMORY_SHARE = 0.8  # of the limit
LARGEST_EFFORT = 5
SCORERS = {  # of scikit-learn, for the metrics of TabArena; the loss decides where there is none
    "roc_auc": "roc_auc",
    "log_loss": "neg_log_loss",
    "root_mean_squared_error": "neg_root_mean_squared_error",
}


class JokerSystem(ExternalSystemModel):
    """joker's table estimators: columns are encoded, settings searched, members combined and calibrated by themselves.

    It keeps the time limit (``max_time``), the number of cores and the GPU, not the memory limit, and holds out whole
    groups or the latest rows where the task says that its test rows are split so.

    Parameters
    ----------
    effort : int
        How much is searched, from 1 to 5.
    """

    def __init__(self, *, effort: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 1 <= effort <= LARGEST_EFFORT:
            raise ValueError(f"effort must be from 1 to {LARGEST_EFFORT}; got {effort!r}. Use effort=3.")
        self.effort = effort
        self.estimator: Any = None

    @property
    def warmup_fn(self) -> Callable[[], None]:
        """Import joker, and compile what a GPU needs, before the timed fit."""
        return _warm_up

    def _fit_system(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        *,
        target_name: str,
        problem_type: str,
        eval_metric: Any,
        validation_metadata: Any,
        num_cpus: int | None,
        num_gpus: int | None,
        memory_limit: float | None,
        time_limit: float | None,
        random_state: int | None,
    ) -> JokerSystem:
        import torch

        import joker

        if num_cpus:
            torch.set_num_threads(int(num_cpus))
        kind = joker.JokerRegressor if problem_type == "regression" else joker.JokerClassifier
        self.estimator = kind(
            effort=self.effort,
            max_time=None if time_limit is None else TIME_SHARE * time_limit,
            scoring=SCORERS.get(eval_metric.name) if problem_type != "multiclass" else None,
            device="cuda" if num_gpus and torch.cuda.is_available() else "cpu",
            random_state=0 if random_state is None else random_state,
        )
        splits = {
            "groups": _one_column(validation_metadata.group_on),
            "time": _one_column(validation_metadata.time_on),
        }
        with warnings.catch_warnings():  # of an end by the time limit, and of splits that the task decides
            warnings.simplefilter("ignore")
            self.estimator.fit(X, y, **{name: column for name, column in splits.items() if column in X.columns})
        return self

    def _predict(self, X: pd.DataFrame) -> pd.Series:
        return pd.Series(self.estimator.predict(X), index=X.index)

    def _predict_proba(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self.estimator.predict_proba(X), columns=self.estimator.classes_, index=X.index)


def _one_column(columns: str | list[str] | None) -> str | None:
    """Return the name of a single column; joker's splits have at most one."""
    if isinstance(columns, list):
        return columns[0] if len(columns) == 1 else None
    return columns


def _warm_up() -> None:
    import joker
    import joker.tables

    joker.warmup()
