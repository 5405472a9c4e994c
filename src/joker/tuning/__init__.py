"""The search for a kernel, a bandwidth and a λ."""

from joker.tuning.result import Tuned
from joker.tuning.tune import tune

__all__ = ["Tuned", "tune"]
