"""The memory of a fit or a prediction, planned before it begins, so that a budget is kept."""

from joker.planning.fit import FitMemory, plan_fit
from joker.planning.plan import FitSpec, Plan, PredictMemory, RowReading, plan_predict
from joker.solvers.methods.method import END, EVALUATION, LAYOUT, STEP, Item

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
