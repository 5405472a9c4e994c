"""The records of a solve, one for each evaluation of the gap, and the reason why it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import inf, isnan
from typing import Any, NamedTuple

import torch
from torch import Tensor

from joker.losses import Scaled
from joker.runtime import chunks, generator
from joker.solvers.block.model import BlockResult, Outcome
from joker.solvers.problem import Problem
from joker.solvers.state import SavedTensors, State

# The duality gap: primal and dual objective of a point, and their sum.
#
#     gap = P + J = Σ [ c_i ℓ(y_i, f_i) + ψ_i(α_i) + α_i f_i ]
#
# Every term is at least 0 (Fenchel–Young), and the sum is 0 only at the optimum.


SUM_ROUNDING = 1e-12  # of a sum over millions of rows in float64, as a share of it
Point = tuple[Tensor, Tensor]  # α (n, t) and its image, (n, t) or (m, t)


@dataclass(frozen=True)
class Gap:
    """The objectives of each column, computed from three sums over the rows, in float64.

    Any dual point bounds the optimal value, so the gap is valid with the best dual value that was seen at any point.
    """

    sums: Tensor  # (3, t): of c ℓ(y, f), α f and ψ(α); or (4, t), with the best dual value of other points
    scale: Tensor | None = None  # (t,): at most the larger objective, where rounding errors leave it open

    @property
    def primal(self) -> Tensor:  # (t,)
        """P, an upper bound on the optimal value."""
        return self.sums[0] + self.sums[1] / 2

    @property
    def own_dual(self) -> Tensor:  # (t,)
        """J of the point itself."""
        return self.sums[2] + self.sums[1] / 2

    @property
    def dual(self) -> Tensor:  # (t,)
        """The best J; -J is a lower bound on the optimal value."""
        return torch.minimum(self.own_dual, self.sums[3]) if len(self.sums) > 3 else self.own_dual

    @cached_property
    def gap(self) -> Tensor:  # (t,)
        """P + J, with the best J."""
        own = self.sums[:3].sum(0)
        if len(self.sums) == 3:
            return own
        # The terms of a point cancel row by row; a difference of two sums is not more precise than their last digits.
        best = self.primal + self.sums[3]
        return torch.where(best > SUM_ROUNDING * self.primal.abs(), torch.minimum(own, best), own)

    @cached_property
    def relative(self) -> Tensor:  # (t,)
        """The gap as a share of the larger objective; 0 where both are 0."""
        if self.scale is not None:
            return torch.where(self.gap == 0, 0.0, self.gap / self.scale)
        scale = torch.maximum(self.primal.abs(), self.dual.abs())
        return torch.where(self.gap == 0, 0.0, self.gap / scale.clamp(min=torch.finfo(scale.dtype).tiny))

    @cached_property
    def worst(self) -> float:
        """The largest relative gap of all columns; infinite if one is NaN, and 0 where rounding makes it less."""
        return max(0.0, float(self.relative.nan_to_num(nan=torch.inf, posinf=torch.inf).max()))

    def with_dual(self, dual: Tensor) -> Gap:  # (t,)
        """Return the gap with a dual value of other points, where that is better."""
        return Gap(torch.cat([self.sums[:3], torch.minimum(self.dual, dual)[None]]), self.scale)

    def columns(self, columns: slice) -> Gap:
        """Return the gap of some columns."""
        return Gap(self.sums[:, columns], None if self.scale is None else self.scale[columns])


def certify(state: State, problem: Problem, points: Sequence[Point]) -> list[Gap]:
    """Return the gap of each point. All gaps are computed in one pass over the rows."""
    return [Gap(sums[:3]) for sums in _sums(state, problem, points)]


def _sums(
    state: State, problem: Problem, points: Sequence[Point], errors: Sequence[Tensor] | None = None
) -> Tensor:  # (points, 4, t), errors of each point (t,)
    """Return the sums of `_terms` over all rows, for each point."""
    alphas, images = [alpha for alpha, _ in points], [image for _, image in points]
    t = alphas[0].shape[1]
    sums = torch.zeros(len(points), 4, t, dtype=torch.float64, device=images[0].device)
    for rows, f in state.predictions(*images):
        for point, alpha in enumerate(alphas):
            error = None if errors is None else errors[point]
            sums[point] += _terms(problem, rows, alpha[rows], f[:, point * t : (point + 1) * t], error)
    for point, (alpha, image) in enumerate(points):
        if state.sparse_rows is not None:  # the sums that give P of θ and J of Ψᵀα, which may differ
            squares = [_mean(theta.square().sum(0), problem.loss.group) for theta in (image, state.image_of(alpha))]
            sums[point, 1] = squares[0]
            sums[point, 2] += (squares[1] - squares[0]) / 2
    return state.group.broadcast_(sums)


SAMPLED = 128  # rows whose predictions are computed in float64, at most
CLEARLY = 0.9  # times the primal objective of Ψᵀα, below which that of another θ is clearly smaller
SAFETY = 2.0  # times the largest error that was found among them
# Where that is too much, rows whose predictions are computed in float64 as well, and the largest share of all rows that
# they may be. Without these, 1.8 million rows take a pass in float64, for the time of eight epochs on a GPU.
MORE_SAMPLED = {128: 0.2, 512: 0.2, 2_048: 0.05, 8_192: 0.05}
AT_A_TIME = 512
STANDARD_ERRORS = 4.0  # of a mean over the sample, by which it is increased
UNSEEN = 3.0  # rows of a sample that may miss the largest possible errors: of 5 in 100 samples none has more
UNITS = 8  # rounding errors of float64 that a prediction may have, in units of ‖α‖ times the largest kernel value


def certify_unrounded(
    state: State,
    problem: Problem,
    points: Sequence[Point],
    seed: int,
    *,
    exact: Tensor | None = None,
    dual: Tensor | None = None,
    enough: float = inf,
) -> Gap:
    """Return a gap of the first point that holds for the kernel without rounding errors, and with the best dual value.

    ``docs/mathematics.md`` has the proof. Errors of predictions are measured on some rows. The image of a point may
    have any error: that of many steps in float32, or of features whose θ is not exactly Ψᵀα. The gap then holds for
    both, θ and Ψᵀα; with ``exact``, the Ψᵀα of the first point in float64, for θ alone. ``dual`` is a dual value of
    another point (t,). Where the gap is above ``enough`` because every row has the largest error, the errors of the
    exact kernel are measured on more rows, of those whose errors count.
    """
    found = [_rounding(state, point, seed, exact if at == 0 else None) for at, point in enumerate(points)]
    sums = _sums(state, problem, points, [error for error, _ in found])

    slack: Tensor | None = None  # of the first point, where it is measured

    def gap() -> Gap:
        rounded = [
            _Rounded.of(state, point, part, *errors, problem.loss.group)
            for point, part, errors in zip(points, sums, found, strict=True)
        ]
        if slack is not None:
            rounded[0] = rounded[0].with_slack(slack, sums[0, 0] - sums[0, 3])
        result = rounded[0].gap()
        for other in [one.dual for one in rounded[1:]] + ([] if dual is None else [dual]):
            result = result.with_dual(other + rounded[0].slack)
        return result

    result = gap()
    if state.exact and points[0][0].dtype != torch.float64:
        for count, share in MORE_SAMPLED.items():
            if result.worst <= enough or result.worst == inf or count > share * len(state.x):
                break
            excess, largest = _sampled_excess(state, problem, points[0], sums[0], found[0][0], seed, count)
            if not bool((largest > found[0][0]).any()):
                sums[0, 0] = torch.minimum(sums[0, 0], sums[0, 3] + excess)
                if (result := gap()).worst > enough:
                    slack, largest = _sampled_slack(state, problem, points[0], sums[0], found[0][0], seed, count)
            if bool((largest > found[0][0]).any()):  # the bound was too small: begin again with a larger one
                found[0], slack = (torch.maximum(found[0][0], SAFETY * largest), found[0][1]), None
                sums = _sums(state, problem, points, [error for error, _ in found])
            result = gap()
    return result


def _sampled_excess(
    state: State, problem: Problem, point: Point, sums: Tensor, error: Tensor, seed: int, count: int
) -> tuple[Tensor, Tensor]:  # sums (4, t), error (t,) -> (t,), (t,)
    """Return by how much Σ c ℓ + α f is larger than in the working precision, and the largest error that was found.

    Rows are drawn with probabilities in proportion to what errors of the size ``error`` would add.
    """
    alpha, image = point
    share = _share_of_primal(sums)

    def most(rows: Tensor | slice, f: Tensor) -> tuple[Tensor, Tensor, Scaled, Tensor, Tensor]:
        """Return the largest excess (k, t), and y, the loss, α and f in float64."""
        y, loss = problem.take(rows, torch.float64)
        a, f = loss.clamp(y, alpha[rows].double()), f.double()
        return _largest(loss, y, f, a, error) - loss.value(y, f), y, loss, a, f

    sizes = torch.empty(len(alpha), dtype=torch.float64, device=alpha.device)
    for rows, f in state.predictions(image):
        sizes[rows] = (most(rows, f)[0] * share).sum(1).clamp_(min=0)
    drawn = _draw(state, point, sizes, count, seed, "excess")
    if drawn is None:
        return torch.full_like(error, inf), torch.zeros_like(error)
    _, y, loss, a, f = most(drawn.rows, image[drawn.rows])
    found = loss.value(y, f - drawn.errors) - loss.value(y, f) - a * drawn.errors
    excess = drawn.most(found, drawn.total / share).clamp_(min=0)
    return _mean(excess, loss.group), drawn.errors.abs().amax(0)


def _sampled_slack(
    state: State, problem: Problem, point: Point, sums: Tensor, error: Tensor, seed: int, count: int
) -> tuple[Tensor, Tensor]:  # sums (4, t), error (t,) -> (t,), (t,)
    """Return how large the sum of α times the error of f is at most, and the largest error that was found.

    Rows are drawn with probabilities in proportion to |α|.
    """
    share, sizes = _share_of_primal(sums), torch.empty(len(point[0]), dtype=torch.float64, device=point[0].device)
    for rows in chunks(len(sizes), 8 * len(error)):
        sizes[rows] = (point[0][rows].abs() * share).sum(1)
    drawn = _draw(state, point, sizes, count, seed, "slack")
    if drawn is None:
        return torch.full_like(error, inf), torch.zeros_like(error)
    found = point[0][drawn.rows].double() * drawn.errors
    unseen = drawn.total / share * error
    slack = torch.maximum(drawn.most(found, unseen), drawn.most(-found, unseen))
    return _mean(slack, problem.loss.group), drawn.errors.abs().amax(0)


def _share_of_primal(sums: Tensor) -> Tensor:  # (4, t) -> (t,)
    """Return what a term of each column weighs where rows are drawn: its share of the primal objective."""
    return 1 / (sums[3] + 0.5 * sums[1]).clamp(min=torch.finfo(torch.float64).tiny)


class _Drawn(NamedTuple):
    """Rows that are drawn at random, with the errors of their predictions."""

    rows: Tensor  # (k,)
    factors: Tensor  # (k, 1): the inverse probabilities
    errors: Tensor  # (k, t)
    total: float  # of the sizes of all rows

    def most(self, found: Tensor, unseen: Tensor) -> Tensor:  # (k, t), (t,) -> (t,)
        """Return a sum over all rows from terms of the drawn ones: the estimate, and four standard errors more.

        It holds where no error is larger than the sizes count with; ``unseen`` is the sum if all errors were so large.
        """
        found = found * self.factors  # each an estimate of the sum over all rows
        count = len(found)
        sums: Tensor = found.mean(0) + STANDARD_ERRORS * found.std(0) / count**0.5 + UNSEEN / count * unseen
        return sums


def _draw(state: State, point: Point, sizes: Tensor, count: int, seed: int, what: str) -> _Drawn | None:  # sizes (n,)
    """Return rows that are drawn with probabilities in proportion to their ``sizes``; None: there are none."""
    ends = sizes.cpu().cumsum(0)
    total = float(ends[-1])
    if not 0 < total < inf:
        return None
    places = torch.rand(count, dtype=torch.float64, generator=generator(seed, what)) * total
    rows = torch.searchsorted(ends, places, right=True).clamp_(max=len(sizes) - 1).to(sizes.device)
    errors = torch.cat([state.prediction_errors(*point, some) for some in rows.split(AT_A_TIME)])
    return _Drawn(rows, (total / sizes[rows])[:, None], state.group.broadcast_(errors), total)


class _Rounded(NamedTuple):
    """Bounds on the objectives of a point, each (t,)."""

    total: Tensor  # on P + J
    primal: Tensor  # P, or less
    dual: Tensor  # J, or more
    norm: Tensor  # ‖θ‖²
    slack: Tensor  # by how much P may be more than ``total`` less ``dual``

    @classmethod
    def of(cls, state: State, point: Point, sums: Tensor, error: Tensor, square: Tensor, group: int) -> _Rounded:
        """Return the bounds from the sums (4, t), errors of predictions, and ‖θ - Ψᵀα‖².

        ‖Ψᵀα‖² is ‖θ - Ψᵀα‖² + 2 Σ α f - ‖θ‖².
        """
        most, products, psi, losses = sums
        square, slack = _mean(square, group), _mean(_length(point[0], 1) * error, group)
        norm = _mean(state.squared_norm(point[1], products), group)
        dual = psi + products - 0.5 * norm + 0.5 * square + slack
        return cls(most + products + psi + 0.5 * square, losses + 0.5 * norm - slack, dual, norm, 3 * slack)

    def with_slack(self, slack: Tensor, excess: Tensor) -> _Rounded:
        """Return the same with a smaller bound on the sum of α times the errors of the predictions.

        ``excess`` is what these errors change of Σ c ℓ + α f, in either direction, as it is convex.
        """
        change = torch.clamp(self.slack / 3 - slack, min=0)
        primal = torch.maximum(self.primal, self.primal + change - excess)
        return self._replace(primal=primal, dual=self.dual - change, slack=self.slack - 3 * change)

    def gap(self) -> Gap:
        """Return the bound on P + J, relative to the smallest objectives that are possible."""
        half = 0.5 * self.norm
        return Gap(
            torch.stack([self.total - self.dual - half, self.norm, self.dual - half]),
            torch.maximum(self.primal, -self.dual).clamp(min=0),
        )


def _mean(values: Tensor, group: int) -> Tensor:  # (t,)
    """Return the mean of each group of columns, in every column of it."""
    return values if group == 1 else values.unflatten(0, (-1, group)).mean(1).repeat_interleave(group)


def certificate_bytes(t: int, image_bytes: int, itemsize: int) -> int:
    """Return the bytes of an image in float64 and its copy, and of the errors of some predictions; 0 in float64."""
    return 0 if itemsize == 8 else 3 * image_bytes + 32 * SAMPLED * t


def certify_in_float64(state: State, problem: Problem, point: Point, seed: int) -> tuple[Point, Gap]:
    """Return the point with the image of its α in float64, and its gap.

    A θ that is not Ψᵀα is kept where its primal objective is clearly smaller: α may be too large for float32.
    """
    alpha, image = point
    exact = state.precise_image(alpha)
    narrow = exact.to(alpha.dtype)
    if state.exact:
        error = UNITS * torch.finfo(exact.dtype).eps * state.largest_kernel * _length(alpha, 2)
        (sums,) = _sums(state, problem, [(alpha, exact)], [error])
        return (alpha, narrow), _Rounded.of(state, (alpha, exact), sums, error, 0 * error, problem.loss.group).gap()
    given, new = (certify_unrounded(state, problem, [(alpha, theta)], seed, exact=exact) for theta in (image, narrow))
    clearly = float(given.primal.sum()) < CLEARLY * float(new.primal.sum())
    return ((alpha, image), given) if clearly else ((alpha, narrow), new)


def _rounding(state: State, point: Point, seed: int, exact: Tensor | None) -> tuple[Tensor, Tensor]:  # (t,), (t,)
    """Return a bound on the errors of the predictions, and ‖θ - Ψᵀα‖²: of θ where that is known, else also of Ψᵀα."""
    alpha, image = point
    if alpha.dtype == torch.float64:
        error = UNITS * torch.finfo(alpha.dtype).eps * _length(alpha, 2)
        square = torch.zeros_like(error) if state.exact else state.largest_kernel * error.square()
        return state.largest_kernel * error, square
    errors = SAFETY * state.prediction_errors(alpha, image, _sample(state, alpha, seed)).abs().amax(0)
    square = (SAFETY if exact is None else 1.0) * state.squared_error(alpha, image, exact)
    if exact is None and not state.exact:
        errors += (state.largest_kernel * square).sqrt()
    both = state.group.broadcast_(torch.stack([errors, square]))
    return both[0], both[1]


def _length(alpha: Tensor, p: int) -> Tensor:  # (n, t) -> (t,)
    """Return (Σ |α|ᵖ)^(1/p) of each column."""
    parts = (alpha[rows].abs().double().pow(p).sum(0) for rows in chunks(len(alpha), 8 * alpha.shape[1]))
    total: Tensor = sum(parts, alpha.new_zeros(alpha.shape[1], dtype=torch.float64))
    return total.pow(1 / p)


def _sample(state: State, alpha: Tensor, seed: int) -> Tensor:  # (k,)
    """Return rows at random, those with the largest α, and those that are farthest from the others."""
    n = len(alpha)
    if n <= SAMPLED:
        return torch.arange(n, device=alpha.device)
    quarter = SAMPLED // 4
    some = torch.randint(n, (2 * quarter,), generator=generator(seed, "rounding")).to(alpha.device)
    sizes = torch.cat([alpha[rows].abs().amax(1) for rows in chunks(len(alpha), 8 * alpha.shape[1])])
    largest = sizes.topk(quarter).indices
    return torch.cat([some, largest, state.farthest[:quarter]])


def _terms(problem: Problem, rows: slice, alpha: Tensor, f: Tensor, error: Tensor | None = None) -> Tensor:  # (4, t)
    """Return the sums of c ℓ, α f, ψ and c ℓ over some rows, in float64: the terms nearly cancel near the optimum.

    The columns of a group have equal parts of its sums: only the sum over a group is a gap. With ``error`` (t,), the
    first is increased to the largest c ℓ + α f of predictions that differ by at most so much.
    """
    y, loss = problem.take(rows, torch.float64)
    alpha, f = loss.clamp(y, alpha.double()), f.double()
    value = loss.value(y, f)
    most = value if error is None else _largest(loss, y, f, alpha, error)
    terms = (most.sum(0), (alpha * f).sum(0), loss.psi(y, alpha).sum(0), value.sum(0))
    return torch.stack([_mean(term, loss.group) for term in terms])


def _largest(loss: Scaled, y: Tensor, f: Tensor, alpha: Tensor, error: Tensor) -> Tensor:  # (b, t), error (t,)
    """Return the largest c ℓ(y, f + e) + α e for |e| ≤ error, or a bound on it where the loss couples columns."""
    if loss.group == 1:  # convex in e: the maximum is at an end
        return torch.maximum(loss.value(y, f + error) + alpha * error, loss.value(y, f - error) - alpha * error)
    # A (soft) maximum less the prediction of the own class changes by at most twice the largest error.
    most = error.unflatten(0, (-1, loss.group)).amax(-1).repeat_interleave(loss.group)
    bound: Tensor = loss.value(y, f) + (2 * loss.unscaled[1] / loss.group + alpha.abs()) * most
    return bound


class Reason(Enum):
    """The reason why a solve ended; the value is the sentence that a user reads.

    Examples
    --------
    >>> import torch
    >>> import joker
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> _, report = joker.prepare(x, x.sin(), lam=0.1).run()
    >>> report.reason is joker.Reason.TOLERANCE
    True
    """

    TOLERANCE = "The relative duality gap reached the tolerance in every column."
    EPOCHS = "The epochs allowed were used up."
    TIME = "The time allowed was used up."
    STALLED = "The objective does not fall any more at this floating-point precision."
    SLOW = "The problem fits in one block, but its gap hardly falls: it is too ill-conditioned."
    BROKEN = "A block is not finite: the kernel or the predictions overflow. Scale the inputs and targets."
    ASKED = "The solve was asked to stop."


FAR = 0.1  # relative gap above which a solve has ended far from the optimum, unless the objective hardly falls
SLOW_FALL = 1e-3  # share by which the objective falls in an epoch, below which a longer solve changes little


def conclusion(gap: float, tol: float, fall: float | None, reason: str = "") -> str:
    """Return in words what the relative gap, the fall of the objective in the last epoch and the reason to end mean."""
    if gap <= tol:
        return f"Solved: the objective is at most {gap:.2g} times its value above the minimum (tol={tol:g})."
    fell = "" if fall is None else f" In the last epoch it fell by {max(fall, 0):.2%}."
    advice = "A longer fit would change little." if _slow(fall) else "Raise max_epochs, or use a larger lam."
    if reason == Reason.STALLED.value and gap > FAR:
        advice = "Rounding errors are too large for this lam: use precision='float64', or a larger lam."
    share = f"{gap:.1%}" if gap < 1 else "an unknown share"
    return f"Not solved to tol={tol:g}: the objective may be {share} above its minimum.{fell} {advice}"


def ended_far(gap: float, tol: float, fall: float | None, reason: str = "") -> bool:
    """Return whether a solve has ended so far from the optimum that its model may differ from what was asked for."""
    return gap > max(FAR, tol) and (not _slow(fall) or reason == Reason.STALLED.value)


def _slow(fall: float | None) -> bool:
    return fall is not None and fall < SLOW_FALL


@dataclass(frozen=True)
class Record:
    """The state of a solve after some epochs."""

    epoch: float  # visits to blocks, divided by the number of blocks
    seconds: float
    gap: Gap
    scores: tuple[float, ...] = ()  # on held-out rows, if there are any; higher is better
    peak_bytes: int | None = None  # the largest amount of memory in use so far

    @property
    def relative_gap(self) -> float:
        """The largest relative gap of all columns."""
        return self.gap.worst

    @property
    def score(self) -> float | None:
        """The best of the scores; None if there are none."""
        return max((-inf if isnan(score) else score for score in self.scores), default=None)

    def entry(self, columns: slice = slice(None), score: float | None = None) -> dict[str, Any]:
        """Return the record of some columns as plain numbers: sums of the objectives, and the largest relative gap."""
        gap = self.gap.columns(columns)
        return {
            "epoch": self.epoch,
            "seconds": self.seconds,
            "primal": float(gap.primal.sum()),
            "dual": -float(gap.dual.sum()),
            "gap": gap.worst,
            **({} if score is None else {"validation_score": score}),
            "peak_bytes": self.peak_bytes,
        }


class BlockStatistics(SavedTensors):
    """Counts the outcomes of block solves on the device of the data. The CPU reads them on request only."""

    saved = ("counts", "recent", "used")

    def __init__(self, device: torch.device) -> None:
        self.counts = torch.zeros(len(Outcome), dtype=torch.int64, device=device)  # of each outcome
        # Columns solved, columns that moved and columns that met a limit, since the last call of stalled().
        self.recent = torch.zeros(3, dtype=torch.int64, device=device)
        self.used = torch.zeros(1, dtype=torch.int64, device=device)  # matrix-vector products
        self._codes = torch.arange(len(Outcome), device=device)

    def add(self, result: BlockResult) -> None:
        """Count the columns of one block."""
        counts = (result.outcome[:, None] == self._codes).sum(0)
        self.counts += counts
        self.used += result.products.sum()
        self.recent += torch.stack([counts.sum(), (result.change < 0).sum(), counts[Outcome.LIMIT]])

    @property
    def outcomes(self) -> Counter[Outcome]:
        """The number of times that each outcome occurred."""
        return Counter({outcome: count for outcome, count in zip(Outcome, self.counts.tolist(), strict=True) if count})

    @property
    def products(self) -> int:
        """The number of matrix-vector products K v."""
        return int(self.used)

    def stalled(self) -> bool:
        """Return whether blocks were visited since the last call and none of them could be improved."""
        solved, moved, limited = self.recent.tolist()
        self.recent.zero_()
        return bool(solved > 0 and moved == 0 and limited == 0)


@dataclass(frozen=True, repr=False)
class Report:
    """The solution, and the duality gap that proves its quality.

    Parameters
    ----------
    alpha : Tensor of shape (n, t)
        The dual variables.
    image : Tensor of shape (m, t) or (n, t)
        θ with features, the predictions f without.
    gap : Gap
        The duality gap of each column.
    reason : Reason
        Why the solve ended.
    records : tuple of Record
        A record for each evaluation of the gap.
    outcomes : Counter of Outcome
        The number of block solves that ended in each way.
    products : int
        The number of matrix-vector products.

    Examples
    --------
    >>> import torch
    >>> import joker
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> _, report = joker.prepare(x, x.sin(), lam=0.1).run()
    >>> report.relative_gap < 1e-3
    True
    """

    alpha: Tensor  # (n, t)
    image: Tensor  # (m, t) θ with features, (n, t) f with the exact kernel
    gap: Gap
    reason: Reason
    records: tuple[Record, ...]
    outcomes: Counter[Outcome]  # of the block solves, counted for each column
    products: int  # matrix-vector products K v, counted for each column

    @property
    def relative_gap(self) -> float:
        """The largest relative gap of all columns."""
        return self.gap.worst

    def __str__(self) -> str:
        last = self.records[-1] if self.records else None
        spent = f" after {last.epoch:g} epochs, {last.seconds:.1f} s" if last else ""
        return f"relative gap {self.relative_gap:.2e}{spent}. {self.reason.value}"

    __repr__ = __str__
