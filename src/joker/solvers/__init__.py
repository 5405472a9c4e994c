"""Dual block coordinate descent with a trust region, certified by the duality gap."""

from joker.solvers.block.model import BlockResult, Outcome
from joker.solvers.block.trust_region import BlockSolver
from joker.solvers.checkpoint import check_processes
from joker.solvers.feature_state import FeatureState
from joker.solvers.loop import Descent
from joker.solvers.methods.method import Method, ProblemSize
from joker.solvers.methods.random_blocks import Average
from joker.solvers.problem import Problem, Settings
from joker.solvers.report import Gap, Point, Reason, Record, Report, certify
from joker.solvers.state import ExactState, State

__all__ = [
    "Average",
    "BlockResult",
    "BlockSolver",
    "Descent",
    "ExactState",
    "FeatureState",
    "Gap",
    "Method",
    "Outcome",
    "Point",
    "Problem",
    "ProblemSize",
    "Reason",
    "Record",
    "Report",
    "Settings",
    "State",
    "certify",
    "check_processes",
]
