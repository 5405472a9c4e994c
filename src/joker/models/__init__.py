"""Fitted predictors, and their files."""

from joker.models.files import load
from joker.models.machine import ExactMachine, FeatureMachine, Machine

__all__ = ["ExactMachine", "FeatureMachine", "Machine", "load"]
