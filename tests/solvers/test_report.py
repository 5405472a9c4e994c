"""What a report says of a solve."""

from joker.solvers import Reason
from joker.solvers.report import conclusion, ended_far


def test_a_solve_that_stalls_far_away_has_ended_far() -> None:
    """A longer solve would not help; another precision would."""
    assert ended_far(0.9, 1e-3, 0.0, Reason.STALLED.value)
    assert not ended_far(0.9, 1e-3, 0.0, Reason.EPOCHS.value)
    assert not ended_far(1e-4, 1e-6, 0.0, Reason.STALLED.value)
    assert "use precision='float64', or a larger lam" in conclusion(0.9, 1e-3, 0.0, Reason.STALLED.value)
    assert "A longer fit would change little" in conclusion(1e-4, 1e-6, 0.0, Reason.STALLED.value)
