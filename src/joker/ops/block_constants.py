"""Constants of the block solve, which the plain solver and the Triton kernel both read here."""

from __future__ import annotations

from enum import IntEnum

# The trust region. ρ is the actual decrease of the objective as a share of the decrease that the model predicts; the
# ratios and the two factors are those of Algorithm 1 of the paper.
ACCEPT_RATIO = 1e-4  # smallest ρ of a step that is accepted; the paper allows 0 to 1/4
POOR_RATIO = 0.5  # the region shrinks where ρ is smaller
GOOD_RATIO = 0.75  # the region grows where ρ is larger and the step reached its boundary
SHRINK, GROW = 0.25, 2.0  # factors of the radius
BOUNDARY_SHARE = 0.99  # a step of at least this share of the radius counts as one that reached the boundary
HALVINGS = 10  # shorter steps that are tried along a step of poor ρ, each half as long as the one before
BARRIER_SHARE = 0.1  # share of the distance to a barrier that every step leaves
# A point on a barrier first moves inside, which may raise the objective. If the gradient reaches its tolerance while
# the objective is not yet lower than at the start, the new tolerance is this share of the gradient norm.
TIGHTER = 0.1

# The search of one model.
BOX_TOLERANCE = 0.5  # a search in a box ends at this share of the gradient norm that the trust region is to reach
FORCING = 0.1  # where the model is inexact, it ends already at this share of the present gradient norm

# Conjugate gradients in a box.
PROPORTION = 1.0  # held coordinates are released when their gradient exceeds this share of the free ones' (Dostál's Γ)
SHORT_STEP = 0.25  # share of a conjugate step that is tried where projecting the whole step lost too much

# ADMM.
RELAXATION = 1.6  # weight of the copy that belongs to K (S. Boyd et al., Found. Trends Mach. Learn. 3, 2011)


class Outcome(IntEnum):
    """How the solve of one column of a block ended."""

    CONVERGED = 0
    LIMIT = 1
    STALLED = 2
    BROKEN = 3

    @property
    def sentence(self) -> str:
        """The sentence a user reads."""
        return _SENTENCES[self]


_SENTENCES = {
    Outcome.CONVERGED: "The projected gradient reached the tolerance.",
    Outcome.LIMIT: "The iterations allowed were used up before the tolerance was reached.",
    Outcome.STALLED: "No step lowers the objective any more at this floating-point precision.",
    Outcome.BROKEN: "The kernel, the predictions or the targets of the block are not finite.",
}
