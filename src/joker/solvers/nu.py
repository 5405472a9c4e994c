"""ν-machines: the threshold of the hinge, or the width of the tube, is found together with the weights.

A ν-machine minimises ``P_ρ(θ) − ν Σ c_i ρ`` over θ and ρ, where ``P_ρ(θ) = ½‖θ‖² + Σ c_i max(ρ − m_i, 0)``. The margin
m is f for one class, y f for two classes, and −|y − f| for regression, where ρ is −ε. For a fixed ρ this is a problem
that every method solves. Its smallest value is convex in ρ, with the derivative Σ|α_i|, so that the ρ of the ν-machine
is the root of a function that grows: Σ|α_i| = ν Σ c_i.

The search for the root need not be precise. Each α that it meets is changed into one with the right sum, and the best
ρ for its predictions is their ν-quantile, where the search goes on. The duality gap of this pair is the certificate.
``docs/mathematics.md`` has the proof.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import inf

import torch
from torch import Tensor

from joker.data import Targets
from joker.losses import EpsilonInsensitive, Loss, ThresholdHinge
from joker.solvers.loop import Descent
from joker.solvers.problem import Problem
from joker.solvers.report import Gap, Reason, Record, Report, certify
from joker.solvers.state import State

ROUNDS = 40  # problems with a fixed ρ, at most
INNER_SHARE = 0.5  # of the tolerance, to which each of them is solved
# Factors by which ρ moves while its root is not bracketed: the first one, and that of an acceleration.
NEAREST, FARTHEST, LEAP = 1.5, 10.0, 1e3
NEAR = 0.3  # share of the sum, by which it may be wrong where the quantile of the predictions is a good ρ
CLOSE = 1e-6  # such a share where α needs no change to be a good solution
VANISHED = 1e-7  # share of the first ρ, below which none is looked for
SCALINGS = 30  # of the free dual variables, until their sum is right
SETTLED = 3  # rounds without a smaller gap after which the search ends, where the root or the gap is known precisely
STUCK = 12  # such rounds after which it ends in any case
ROUNDING = 1e-12  # relative gap that further rounds could lower by rounding errors only
UNITS = 64  # rounding errors of a prediction of one class, at most
GAINED = 0.9  # the share of the smallest gap so far, below which a gap counts as smaller


class NuProblem(ABC):
    """A ν-machine of t columns, each with a ρ of its own.

    Parameters
    ----------
    targets : Targets
        Targets, weights and penalties.
    nu : float
        The share ν, in (0, 1].
    """

    least, most = 0.0, torch.inf  # between which ρ is

    def __init__(self, targets: Targets, nu: float) -> None:
        self.targets, self.nu = targets, nu
        c = targets.take(slice(None))[1].double()
        self.largest_sum = c.sum(0).expand(targets.t)  # (t,) of |α|
        self.total = nu * self.largest_sum  # (t,)

    @abstractmethod
    def loss(self, rho: Tensor) -> Loss:  # (t,)
        """Return the loss for a fixed ρ."""

    @abstractmethod
    def margins(self, y: Tensor, f: Tensor) -> Tensor:  # (n, t)
        """Return the margins of predictions."""

    @abstractmethod
    def start(self, state: State) -> Tensor:  # (t,)
        """Set a first α, and return a first ρ."""

    def slack(self, alpha: Tensor, rho: Tensor) -> Tensor:  # (n, t), (t,) -> (t,)
        """Return what the gap has beside that of the problem with a fixed ρ."""
        return torch.zeros_like(self.total)

    def scale(self, gap: Gap) -> Tensor | None:  # (t,)
        """Return what a gap is divided by; None is the larger of both objectives for a fixed ρ."""
        return None

    def at(self, rho: Tensor) -> Problem:  # (t,)
        """Return the problem for a fixed ρ."""
        return Problem(self.loss(rho), self.targets)

    def feasible(self, alpha: Tensor) -> Tensor:  # (n, t)
        """Return α with the sum of the ν-machine: the dual variables that are inside the box are multiplied."""
        y, c = self.targets.take(slice(None))
        bound = c.double().expand(alpha.shape)
        size = alpha.abs().double().minimum(bound)
        for _ in range(SCALINGS):
            free = (size > 0) & (size < bound)
            inside = torch.where(free, size, 0.0).sum(0)
            missing = self._missing(size)
            factor = torch.where(inside > 0, 1 + missing / inside.clamp(min=1e-300), 1.0).clamp(min=0)
            size = torch.where(free, size * factor, size).minimum(bound)
            if bool((missing.abs() <= 1e-15 * self.total).all()) or not bool(free.any()):
                break
        size = self._with_sum(size, bound)
        return self._signed(alpha, y, size).to(alpha)

    def _missing(self, size: Tensor) -> Tensor:  # (n, t) -> (t,)
        """Return what is to be added to a sum."""
        return self.total - size.sum(0)

    def _with_sum(self, size: Tensor, bound: Tensor) -> Tensor:  # (n, t)
        """Correct a sum that the free variables alone could not correct."""
        total = size.sum(0)
        room = (self.largest_sum - total).clamp(min=1e-300)
        more = size + (bound - size) * ((self.total - total) / room).clamp(0, 1)
        less = size * (self.total / total.clamp(min=1e-300))
        return torch.where(total > self.total, less, more)

    def _signed(self, alpha: Tensor, y: Tensor, size: Tensor) -> Tensor:  # (n, t)
        """Return dual variables of these sizes."""
        return y.double().sign() * size

    def best(self, state: State) -> Tensor:  # (t,)
        """Return the best ρ for the predictions of a state: the weighted ν-quantile of the margins."""
        margins = torch.empty(state.alpha.shape, dtype=torch.float64, device=state.alpha.device)
        for rows, f in state.predictions(state.image):
            margins[rows] = self.margins(self.targets.take(rows)[0].double(), f.double())
        c = self.targets.take(slice(None))[1].double().expand(margins.shape)
        values, order = margins.sort(0)
        reached = c.gather(0, order).cumsum(0) >= self.total * (1 - 1e-12)
        first = reached.to(torch.int8).argmax(0)
        found = values.gather(0, first[None])[0]
        return found.clamp(self.least, self.most)


class NuHinge(NuProblem):
    """Two classes, −1 and 1: the ν-SVC with a penalised intercept, or without one."""

    def loss(self, rho: Tensor) -> Loss:
        return ThresholdHinge(rho)

    def margins(self, y: Tensor, f: Tensor) -> Tensor:
        return y * f

    def start(self, state: State) -> Tensor:
        y, c = self.targets.take(slice(None))
        state.reset((self.nu * c * y).to(state.alpha))
        rho, mean = self.best(state), self._mean_margin(state)
        return torch.where(rho > 0, rho, mean)

    def _mean_margin(self, state: State) -> Tensor:  # (t,)
        """Return the mean of the positive parts of the margins."""
        total = torch.zeros_like(self.total)
        for rows, f in state.predictions(state.image):
            total += self.margins(self.targets.take(rows)[0].double(), f.double()).clamp(min=0).sum(0)
        return total / self.targets.n


class OneClass(NuHinge):
    """One class, whose targets are 1."""

    def best(self, state: State) -> Tensor:
        """Return the ν-quantile, lowered by rounding errors: the row that it is from must stay at or above it."""
        return super().best(state) * (1 - UNITS * torch.finfo(state.alpha.dtype).eps)

    def scale(self, gap: Gap) -> Tensor:
        return 0.5 * gap.sums[1]  # ½‖θ‖², minus the smallest value of the objective


class NuTube(NuProblem):
    """Regression of one column: the half-width ε of the tube is −ρ."""

    least, most = -torch.inf, 0.0

    def loss(self, rho: Tensor) -> Loss:
        return EpsilonInsensitive(max(0.0, -float(rho)))

    def margins(self, y: Tensor, f: Tensor) -> Tensor:
        return -(y - f).abs()

    def start(self, state: State) -> Tensor:
        return self.best(state)

    def slack(self, alpha: Tensor, rho: Tensor) -> Tensor:
        return -rho * (self.total - alpha.abs().double().sum(0)).clamp(min=0)

    def _missing(self, size: Tensor) -> Tensor:
        return super()._missing(size).clamp(max=0)  # a smaller sum is feasible

    def _with_sum(self, size: Tensor, bound: Tensor) -> Tensor:
        total = size.sum(0)
        return torch.where(total > self.total, size * (self.total / total.clamp(min=1e-300)), size)

    def _signed(self, alpha: Tensor, y: Tensor, size: Tensor) -> Tensor:
        return alpha.double().sign() * size


@dataclass(frozen=True)
class NuReport:
    """The solution of a ν-machine."""

    rho: Tensor  # (t,)
    report: Report  # of the problem for this ρ, with the gap of the ν-machine
    least_share: float = 0.0  # the smallest Σ|α| / Σ c of all problems, of the column where it is largest
    unbounded: bool = False  # whether that is more than ν: no ρ with a smaller sum was found


@dataclass
class _Bracket:
    """The values of ρ between which the root lies, with Σ|α| − ν Σ c at each; NaN where it is not known."""

    low: Tensor  # (t,)
    high: Tensor
    below: Tensor
    above: Tensor
    side: Tensor  # the end that moved last: −1 or 1
    repeated: Tensor  # how often it has moved without the other

    @classmethod
    def around(cls, problem: NuProblem, like: Tensor) -> _Bracket:  # (t,)
        unknown, none = torch.full_like(like, torch.nan), torch.zeros_like(like)
        low, high = torch.full_like(like, problem.least), torch.full_like(like, problem.most)
        return cls(low, high, unknown, unknown.clone(), none, none.clone())

    def add(self, rho: Tensor, excess: Tensor) -> None:  # (t,)
        """Take the excess at a point."""
        up = excess > 0
        self.high, self.above = torch.where(up, rho, self.high), torch.where(up, excess, self.above)
        self.low, self.below = torch.where(up, self.low, rho), torch.where(up, self.below, excess)
        side = torch.where(up, 1.0, -1.0)
        again = side == self.side
        self.repeated = torch.where(again, self.repeated + 1, 1.0)
        # The Illinois rule: an end that stays is taken for half as far from the root.
        self.above = torch.where(again & ~up, self.above / 2, self.above)
        self.below = torch.where(again & up, self.below / 2, self.below)
        self.side = side.to(self.side)

    def narrow(self, tol: float, rho: Tensor) -> bool:
        """Whether the root is known to within ``tol``, relative to ρ."""
        return bool((self.high - self.low <= tol * rho.abs()).all())

    def next(self, rho: Tensor, excess: Tensor, total: Tensor, best: Tensor | None) -> Tensor:  # (t,)
        """Return where to look next: at ``best``, or on the line through both ends, or nearer to the unknown end."""
        share = (total / (total + excess).clamp(min=1e-300)).clamp(1 / FARTHEST, FARTHEST)
        share = torch.where(excess > 0, share.clamp(max=1 / NEAREST), share.clamp(min=NEAREST))
        share = share.pow(self.repeated).clamp(1 / LEAP, LEAP)
        outward = torch.where(rho > 0, rho * share, rho / share)
        # Over decades the sum is nearly linear in the logarithm.
        wide = (self.low * self.high > 0) & (self.low.isfinite() & self.high.isfinite())
        low, high = (torch.where(wide, end.sign() * end.abs().log(), end) for end in (self.low, self.high))
        line = low - self.below * (high - low) / (self.above - self.below)
        line = torch.where(wide, self.low.sign() * (self.low.sign() * line).exp(), line)
        known = self.below.isfinite() & self.above.isfinite()
        inside = torch.where(known, line, outward)
        if best is not None:
            near = excess.abs() < NEAR * total
            inside = torch.where(near & (best > self.low) & (best < self.high), best, inside)
        middle = 0.5 * (rho + torch.where(excess > 0, self.low, self.high))
        ok = inside.isfinite() & (inside > self.low) & (inside < self.high)
        found = torch.where(ok, inside, middle)
        at_end = (excess < 0) & (self.repeated > 1) & self.high.isfinite() & self.above.isnan()
        return torch.where(at_end, self.high, found)  # no tube is narrower than 0


def solve(descent: Descent, problem: NuProblem) -> NuReport:
    """Solve a ν-machine, with the state, the settings and the method of a solve that has not begun."""
    return _RootSearch(descent, problem).run()


class _RootSearch:
    """The search for the root, and the best certificate on its way."""

    def __init__(self, descent: Descent, problem: NuProblem) -> None:
        self.state, self.settings, self.method = descent.state, descent.settings, type(descent.method)
        self.problem, self.started = problem, time.perf_counter()
        self.records: list[Record] = []
        self.best: NuReport | None = None
        self.epochs, self.since = 0.0, 0  # rounds since the smallest gap was found
        self.least = problem.largest_sum.clone()  # the smallest Σ|α| of all rounds

    def run(self) -> NuReport:
        """Solve problems with a fixed ρ until the gap is small enough, or nothing is gained any more."""
        rho = first = self.problem.start(self.state)
        bracket, reason = _Bracket.around(self.problem, rho), None
        for number in range(ROUNDS):
            report = self._solve_at(rho)
            excess = report.alpha.abs().double().sum(0) - self.problem.total
            bracket.add(rho, excess)
            self.least = torch.minimum(self.least, excess + self.problem.total)
            found = self._certified(report, excess)
            best = self._take(found)
            vanished = bool(((rho < VANISHED * first) & (rho > 0)).any())
            if reason := self._reason(best, report, bracket.narrow(self.settings.tol, rho), vanished):
                break
            rho = bracket.next(rho, excess, self.problem.total, None if number % 2 else found.rho)
        return self._report(reason or Reason.EPOCHS)

    @property
    def seconds(self) -> float:
        """The time so far, that of rank 0."""
        return float(self.state.group.decide(time.perf_counter() - self.started))

    def _solve_at(self, rho: Tensor) -> Report:
        """Solve the problem with a fixed ρ, from the point where the state is."""
        left = max(0.0, self.settings.max_time - self.seconds)
        settings = self.settings.decided(tol=INNER_SHARE * self.settings.tol, max_time=left)
        descent = Descent(self.state, self.problem.at(rho), settings, self.method)
        report = descent.run()
        self.epochs += descent.epoch
        return report

    def _certified(self, report: Report, excess: Tensor) -> NuReport:  # (t,)
        """Return the ν-machine nearest to a point, with its gap.

        Its α has the right sum. Where the sum was nearly right, the point itself may have the smaller gap: a change of
        α by rounding errors moves many rows off the threshold.
        """
        dual = self.problem.feasible(report.alpha)
        found = self._evaluated(dual, dual)
        if found.report.relative_gap > self.settings.tol and bool((excess.abs() <= CLOSE * self.problem.total).all()):
            other = self._evaluated(report.alpha, dual)
            found = min(found, other, key=lambda one: one.report.relative_gap)
        self.records.append(found.report.records[-1])
        return found

    def _evaluated(self, alpha: Tensor, dual: Tensor) -> NuReport:  # (n, t)
        """Return a point with the best ρ for it, and the gap with a dual point whose sum is right."""
        state = self.state
        state.reset(alpha)
        rho = self.problem.best(state)
        only_gap = self.settings.decided(max_epochs=0, max_time=inf, averaging=False, momentum=False)
        found = Descent(state, self.problem.at(rho), only_gap, self.method).run()
        image, gap = found.image.clone(), replace(found.gap, sums=found.gap.sums[:3].clone())
        if dual is not alpha:
            points = [(alpha, image), (dual, state.image_of(dual))]
            own, other = certify(state, self.problem.at(rho), points)
            gap.sums[0] += (other.own_dual - own.own_dual).clamp(min=0)
        gap.sums[0] += self.problem.slack(dual, rho)
        if (scale := self.problem.scale(gap)) is not None:
            gap = replace(gap, scale=scale)
        record = replace(found.records[-1], gap=gap, epoch=self.epochs, seconds=self.seconds)
        return NuReport(rho, replace(found, alpha=alpha, image=image, gap=gap, records=(record,)))

    def _take(self, found: NuReport) -> NuReport:
        """Keep the certificate with the smallest gap, and return it."""
        before = inf if self.best is None else self.best.report.relative_gap
        self.since = 0 if found.report.relative_gap < GAINED * before else self.since + 1
        if self.best is None or found.report.relative_gap < before:
            self.best = found
        return self.best

    def _reason(self, best: NuReport, report: Report, narrow: bool, vanished: bool) -> Reason | None:
        """Return why the search ends, or None."""
        if best.report.relative_gap <= self.settings.tol:
            return Reason.TOLERANCE
        if self.seconds >= self.settings.max_time:
            return Reason.TIME
        rounds = SETTLED if narrow or best.report.relative_gap <= ROUNDING else STUCK
        if report.reason is Reason.BROKEN or vanished or self.since >= rounds:
            return Reason.STALLED if report.reason is Reason.TOLERANCE else report.reason
        return None

    def _report(self, reason: Reason) -> NuReport:
        """Return the best certificate, with the records of all rounds."""
        assert self.best is not None
        best, shares = self.best, self.least / self.problem.largest_sum
        self.records[-1] = replace(self.records[-1], gap=best.report.gap)
        solved = replace(best.report, reason=reason, records=tuple(self.records))
        unbounded = bool((self.least > self.problem.total).any()) and reason is not Reason.TIME
        return NuReport(best.rho, solved, float(shares.max()), unbounded)
