"""What a fit or a prediction will hold in memory: planned before it begins, so that a budget is kept."""

from joker.planning.fit import FitLayout, plan_fit
from joker.planning.plan import END, LAYOUT, LOOK, STEP, Item, Plan
from joker.planning.predict import PredictLayout, plan_predict

__all__ = [
    "END",
    "LAYOUT",
    "LOOK",
    "STEP",
    "FitLayout",
    "Item",
    "Plan",
    "PredictLayout",
    "plan_fit",
    "plan_predict",
]
