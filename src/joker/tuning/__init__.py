"""The search for a kernel, a bandwidth and a λ."""

from joker.tuning.tune import Tuned, tune

__all__ = ["Tuned", "tune"]
