"""Dual block coordinate descent with a trust region, certified by the duality gap."""

from joker.solvers.average import Average
from joker.solvers.block.result import BlockResult, Outcome
from joker.solvers.block.trust_region import BlockSolver
from joker.solvers.descent import Descent
from joker.solvers.exact_state import ExactState
from joker.solvers.feature_state import FeatureState
from joker.solvers.gap import Gap, Point, certify
from joker.solvers.methods import resolved
from joker.solvers.problem import Problem
from joker.solvers.processes import check_processes
from joker.solvers.report import Reason, Record, Report
from joker.solvers.settings import Settings
from joker.solvers.state import State

__all__ = [
    "Average",
    "BlockResult",
    "BlockSolver",
    "Descent",
    "ExactState",
    "FeatureState",
    "Gap",
    "Outcome",
    "Point",
    "Problem",
    "Reason",
    "Record",
    "Report",
    "Settings",
    "State",
    "certify",
    "check_processes",
    "resolved",
]
