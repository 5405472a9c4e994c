"""The base class of the estimators for tables: their parameters, the fit, the facts it reports and the predictions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from joker.distributed import current
from joker.errors import InvalidData, InvalidParameter
from joker.estimators.calibration import Calibration
from joker.planning import Plan
from joker.runtime import gpus, parse_device
from joker.tables.blend import Blend
from joker.tables.candidates import Learnt
from joker.tables.columns import DROP
from joker.tables.encoding import fit_encoding
from joker.tables.frames import RawTable, as_batches
from joker.tables.html_view import TableView
from joker.tables.importance import MAX_ROWS, column_importances
from joker.tables.inputs import as_inputs, in_the_form_of, labelled_inputs, shape_of
from joker.tables.intervals import Residuals, make_residuals
from joker.tables.learner import learn
from joker.tables.problem import Problem
from joker.tables.search import Clock
from joker.tables.table_card import table_card
from joker.tables.table_document import save
from joker.tables.text_values import with_values
from joker.tables.variants import decided_kinds

Array = NDArray[Any]
AUTO = "auto"
BASE_SECONDS = 60.0  # the default of max_time: this, and SECONDS_PER_ROW for each row, at most MAX_SECONDS
SECONDS_PER_ROW = 1e-3
MAX_SECONDS = 600.0
BATCH_ROWS = 2**16  # rows that are encoded and predicted at a time
IMPORTANCE_SHARE = 0.1  # of max_time: for the importance of the columns


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(TableView, BaseEstimator):
    """The parameters and the fit that the classifier and the regressor share."""

    columns: Mapping[str, str] | None = None
    scoring: Any = None
    max_time: float | str = AUTO
    n_features: int | str | None = AUTO
    device: str | torch.device | None = AUTO
    memory: int | str = AUTO
    random_state: int | np.random.RandomState | None = None

    _task: ClassVar[str]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model with its encoding to one file, which `joker.load` reads.

        The file is safetensors with a JSON document and holds no code.
        """
        check_is_fitted(self, "_blend")
        save(self, path)

    def card(self, scores: Mapping[str, float] | None = None) -> str:
        """Return a model card in Markdown: the columns, the members, the settings, the scores and the environment.

        Parameters
        ----------
        scores : mapping from str to float, optional
            Scores of your own, such as ``{"score on new rows": 0.93}``, which the model card lists too.
        """
        check_is_fitted(self, "_blend")
        return table_card(self, scores)

    @property
    def blend(self) -> Blend:
        """The weighted mean of kernel models that makes the predictions."""
        check_is_fitted(self, "_blend")
        return self._blend

    @property
    def calibration(self) -> Calibration | None:
        """From decision values to probabilities; None for numbers."""
        check_is_fitted(self, "_blend")
        return self._calibration

    @property
    def residuals(self) -> Residuals:
        """The distribution of the errors on held-out rows."""
        check_is_fitted(self, "_blend")
        return self._residuals

    def restore(self, blend: Blend, calibration: Calibration | None, residuals: Residuals) -> None:
        """Make a model from the parts of a fitted one, which a file contains."""
        self._blend, self._calibration, self._residuals = blend, calibration, residuals

    def plan(self, X: Any, y: Any) -> Plan:
        """Return what the fit of one kernel model on the encoded table holds in memory, without fitting it."""
        inputs, codes, classes = self._checked(X, y)
        estimator = self._estimator()
        if not isinstance(inputs, RawTable):
            return estimator.plan(inputs, codes)  # type: ignore[no-any-return]
        problem = Problem(inputs, codes, classes, estimator, Clock(self._limit(X)), seed=0, columns=self.columns)
        _, x = fit_encoding(inputs, codes, classes, kinds=decided_kinds(problem))
        return estimator.plan(x, codes)  # type: ignore[no-any-return]

    @property
    def feature_importances_(self) -> Array:
        """The importance of each column of the table, of sum 1: the share in the loss when the column is shuffled.

        It is measured on held-out rows, or is NaN where the time limit ended the fit before that.
        """
        check_is_fitted(self, "_blend")
        return np.array([np.nan if row["importance"] is None else row["importance"] for row in self.columns_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = False
        return tags

    def _fit(self, X: Any, y: Any) -> Self:
        clock = Clock(self._limit(X))
        inputs, codes, classes = self._checked(X, y)
        self._check_width(inputs, reset=True)
        seed = current().decide(int(check_random_state(self.random_state).randint(2**31 - 1)))
        problem = Problem(
            inputs,
            codes,
            classes,
            self._estimator(),
            clock,
            seed,
            self.scoring,
            self.columns,
            self._row_weights(codes),
            self._gpu(),
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes")  # of many classes, one at a time
            warnings.filterwarnings("ignore", "Mean of empty slice")  # a class that only held-out rows have
            learnt = learn(problem)
        self._keep(learnt, problem)
        return self

    def _checked(self, X: Any, y: Any) -> tuple[Any, Array, int]:
        """Return inputs, targets and the number of classes (0 for numbers), without rows that have no target."""
        inputs, labels = labelled_inputs(X, y, type(self).__name__)
        if isinstance(inputs, RawTable):
            inputs = with_values(inputs, self.columns)
        return inputs, *self._encode_target(labels)

    def _encode_target(self, labels: Array) -> tuple[Array, int]:
        raise NotImplementedError

    def _estimator(self) -> Any:
        raise NotImplementedError

    def _row_weights(self, codes: Array) -> Array | None:
        return None

    def _settings(self) -> dict[str, Any]:
        device = None if self._is_auto_device() else self.device
        return {"n_features": self.n_features, "device": device, "memory": self.memory}

    def _is_auto_device(self) -> bool:
        return isinstance(self.device, str) and self.device == AUTO

    def _gpu(self) -> Any:
        """The GPU of a fit on many rows. The search has few rows, for which a CPU needs no compiled kernels."""
        if self._is_auto_device():
            return "cuda" if gpus() else None
        return self.device if parse_device(self.device).type == "cuda" else None

    def _limit(self, X: Any) -> float:
        """The seconds that the fit may take."""
        if isinstance(self.max_time, str) and self.max_time == AUTO:
            rows = X.shape[0] if hasattr(X, "shape") else len(X)
            return min(BASE_SECONDS + SECONDS_PER_ROW * rows, MAX_SECONDS)
        if not isinstance(self.max_time, Real) or isinstance(self.max_time, bool) or not self.max_time >= 0:
            raise InvalidParameter(
                f"max_time must be a number of seconds of at least 0, or 'auto'; got {self.max_time!r}. Use 60."
            )
        return float(self.max_time)

    def _check_width(self, inputs: Any, *, reset: bool) -> None:
        """Store or compare the number and the names of the columns."""
        width = shape_of(inputs)[1]
        if reset:
            self.n_features_in_ = width
            if isinstance(inputs, RawTable) and inputs.named:
                self.feature_names_in_ = np.array(inputs.names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        named = isinstance(inputs, RawTable) and inputs.named and hasattr(self, "feature_names_in_")
        if width != self.n_features_in_ and not named:
            raise InvalidData(
                f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input. Give the columns of the training table."
            )

    def _keep(self, learnt: Learnt, problem: Problem) -> None:
        """Store what predictions and reports need."""
        self.restore(learnt.blend, learnt.calibration, make_residuals(learnt.residuals))
        self.leaderboard_ = learnt.leaderboard
        self.held_out_score_ = self._held_out_score(learnt, problem)
        self.members_ = [_member_facts(member) for member in learnt.blend.members]
        self.columns_ = self._column_facts(learnt, problem)

    def _held_out_score(self, learnt: Learnt, problem: Problem) -> float | None:
        raise NotImplementedError

    def _losses(self, values: Array, y: Array) -> Array:
        """The loss of each row, for the importance of columns."""
        raise NotImplementedError

    def _column_facts(self, learnt: Learnt, problem: Problem) -> list[dict[str, Any]]:
        encoding = learnt.blend.encodings[0]
        if encoding is None:
            return []
        kinds = encoding.kinds
        used = [kind.name for kind in kinds if kind.kind != DROP]
        importances = None
        if learnt.held_blend is not None:
            rows = learnt.first_held[:: max(1, len(learnt.first_held) // MAX_ROWS)][:MAX_ROWS]
            blend, y = learnt.held_blend, problem.y[rows]
            importances = column_importances(
                problem.inputs.some(rows),
                used,
                lambda table: self._losses(blend.values(table), y),
                problem.seed,
                problem.clock.after(IMPORTANCE_SHARE),
            )
        return encoding.facts(None if importances is None else importances.tolist())

    def _values(self, X: Any) -> Array:  # (n, t)
        check_is_fitted(self, "_blend")
        inputs = as_inputs(X)
        self._check_width(inputs, reset=False)
        if not shape_of(inputs)[0]:
            raise InvalidData(
                f"found array with 0 sample(s) (shape=(0, {self.n_features_in_})) while a minimum of 1 is required. "
                "Give at least one row."
            )
        inputs = in_the_form_of(inputs, as_table=self._blend.encodings[0] is not None)
        if not isinstance(inputs, RawTable):
            return self._blend.values(inputs)
        return np.concatenate([self._blend.values(batch) for batch in as_batches(inputs, BATCH_ROWS)])


def _member_facts(member: Any) -> dict[str, Any]:
    model = member.model
    return {
        "weight": member.weight,
        "encoding": member.encoding,
        "kernel": str(model.kernel),
        "lam": model.lam_,
        "bandwidth": float(np.min(model.bandwidth_)),
        "gap": model.gap_,
        **({"target": member.target.form} if member.target is not None else {}),
    }
