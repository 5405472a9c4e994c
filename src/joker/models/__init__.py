"""Fitted predictors."""

from joker.models.machine import ExactMachine, FeatureMachine, Machine

__all__ = ["ExactMachine", "FeatureMachine", "Machine"]
