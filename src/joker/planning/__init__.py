"""The memory of a fit or a prediction, planned before it begins, so that a budget is kept."""

from joker.planning.fit import FitMemory, plan_fit
from joker.planning.fit_spec import FitSpec, RowReading
from joker.planning.plan import END, EVALUATION, LAYOUT, STEP, Item, Plan
from joker.planning.predict import PredictMemory, plan_predict

__all__ = [
    "END",
    "EVALUATION",
    "LAYOUT",
    "STEP",
    "FitMemory",
    "FitSpec",
    "Item",
    "Plan",
    "PredictMemory",
    "RowReading",
    "plan_fit",
    "plan_predict",
]
