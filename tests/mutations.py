"""A mutation run: 109 bugs are put into copies of the source, one at a time, and the tests must find each of them.

    python tests/mutations.py [--package planning] [--only "momentum"] [--results tests/mutations.json]

A mutation replaces a piece of text that occurs once in its file. The fast tests of its package are run on the copy,
those of its module first: it is killed if a test fails, or if the tests take too long. First every piece of text is
looked up, and the tests are run without a mutation. The exit status is 1 if a mutation survives.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
TIMEOUT = 300.0  # seconds of the tests of one mutation
FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
PYTEST = ("-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow and not gpu")


@dataclass(frozen=True)
class Mutation:
    """A bug: a piece of text that occurs once in a file, and what replaces it."""

    file: str  # in src/joker
    old: str
    new: str
    name: str  # of the bug, on one line

    @property
    def path(self) -> Path:
        """The file, relative to the folder of the sources."""
        return Path("joker") / self.file


M = Mutation
MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "solvers": (
        M(
            "solvers/loop.py",
            "point, gap = self._recompute(point[0], self.state.alpha if self.averaged else None, last_gap)",
            "pass",
            "the tolerance is claimed without computing the image again",
        ),
        M(
            "solvers/loop.py",
            "self._earlier()[-1:]",
            "self._earlier()[:1]",
            "the best dual value is that of the first record",
        ),
        M(
            "solvers/methods/random_blocks.py",
            "            self.alpha.copy_(state.alpha)\n            self.image.copy_(state.image)",
            "            self.alpha.copy_(state.alpha)",
            "a restart of momentum copies α without its image",
        ),
        M(
            "solvers/methods/random_blocks.py",
            "        self.seen.copy_(self.steps.expand_as(self.seen))\n",
            "",
            "with momentum the average takes rows as not updated",
        ),
        M(
            "solvers/report.py",
            "torch.where(best > SUM_ROUNDING * self.primal.abs(), torch.minimum(own, best), own)",
            "torch.minimum(own, best)",
            "a difference of two sums that is only rounding is a gap",
        ),
        M(
            "solvers/methods/pcg.py",
            "keep = torch.where(last > 0, norm / last, 0.0).to(p.dtype)",
            "keep = torch.where(last > 0, last / norm, 0.0).to(p.dtype)",
            "the share of the last direction in PCG is inverted",
        ),
        M(
            "solvers/methods/nystrom.py",
            "return weighted.mul_(self.weights / self.lam)",
            "return weighted.div_(self.lam)",
            "the preconditioner in float64 drops the weights",
        ),
        M(
            "solvers/kernel_cache.py",
            "        self.used[slots[slots >= 0]] = self.uses\n",
            "",
            "cached rows that are in use may be evicted",
        ),
        M(
            "solvers/kernel_cache.py",
            "        self.slot[self.row[oldest]] = -1\n",
            "",
            "evicted rows are still taken for cached",
        ),
        M(
            "solvers/kernel_cache.py",
            "if i > rows.start:",
            "if i >= rows.start:",
            "the diagonal tiles of a symmetric product count twice",
        ),
        M(
            "solvers/checkpoint.py",
            "torch.arange(at.start + 1, at.stop + 1,",
            "torch.arange(1, at.stop - at.start + 1,",
            "the fingerprint of rows has the same factors in every chunk",
        ),
        M(
            "solvers/methods/greedy_blocks.py",
            "        gains.index_fill_(0, upward, -inf)\n",
            "",
            "a row may be twice in a greedy block",
        ),
        M(
            "solvers/state.py",
            "return {name: getattr(self, name).clone() for name in self.saved}",
            "return {name: getattr(self, name) for name in self.saved}",
            "a saved state shares its memory with the solve",
        ),
    ),
    "losses": (
        M(
            "losses/loss.py",
            "self.kink * torch.where(a < 0, -1.0, 1.0) < 0",
            "self.kink * a.sign() < 0",
            "the direction of α at a kink ignores the kink",
        ),
        M(
            "losses/loss.py",
            "(g + 0.5 * h * (new - a)) - self.kink * (new.abs() - a.abs())",
            "(g + 0.5 * h * (new - a))",
            "the gain of a row leaves out the kink",
        ),
        M(
            "losses/loss.py",
            "return self.loss.curvature(a / self._divisor) / self._divisor",
            "return self.loss.curvature(a / self._divisor)",
            "the curvature of a scaled loss is not scaled",
        ),
        M(
            "losses/loss.py",
            "return self.c * self.loss.start(a / self._divisor, toward)",
            "return self.loss.start(a / self._divisor, toward)",
            "the starting point of a scaled loss is not scaled",
        ),
        M(
            "losses/loss.py",
            "return torch.where(c > 0, c * bound, 0.0) if isinstance(c, Tensor) else c * bound",
            "return c * bound",
            "the box of a row of weight 0 is 0 · ∞",
        ),
        M(
            "losses/loss.py",
            "return torch.where(y > 0, low, -high), torch.where(y > 0, high, -low)",
            "return low, high",
            "the box of the class -1 is that of the class 1",
        ),
        M(
            "losses/loss.py",
            "-reduce(_larger, (-part.upper for part in self.parts))",
            "reduce(_larger, (part.upper for part in self.parts))",
            "the box of an infimal convolution has the larger upper end",
        ),
        M(
            "losses/loss.py",
            "barrier = property(lambda self: any(part.barrier for part in self.parts))",
            "barrier = property(lambda self: all(part.barrier for part in self.parts))",
            "an infimal convolution with one barrier has none",
        ),
        M(
            "losses/classification.py",
            "torch.special.xlog1py(1 - new, -d / (1 - a))",
            "torch.special.xlog1py(1 - new, d / (1 - a))",
            "a wrong sign in the relative entropy",
        ),
        M(
            "losses/classification.py",
            "a.clamp(self.FLOOR, 1 - torch.finfo(a.dtype).eps)",
            "a.clamp(self.FLOOR, 1.0)",
            "the slope of the logistic loss is infinite at 1",
        ),
        M(
            "losses/multiclass.py",
            "return loss.expand_as(f).flatten(-2) / self.classes",
            "return loss.expand_as(f).flatten(-2)",
            "every column has the whole loss of its row",
        ),
        M(
            "losses/multiclass.py",
            "return self.c * self.loss.clamp(y, a / self._divisor)",
            "return self.loss.clamp(y, a / self._divisor)",
            "the box of a scaled loss of rows is not scaled",
        ),
        M(
            "losses/multiclass.py",
            "share * (gap - 0.5 * share * curvature) / columns",
            "share * (gap - share * curvature) / columns",
            "the gain of a row of classes drops the factor ½",
        ),
    ),
    "kernels": (
        M(
            "kernels/kernel.py",
            "centre = z.mean(dim=0, dtype=dtype)",
            "centre = z.mean(dim=0)",
            "squared distances lose the type that was asked for",
        ),
        M(
            "kernels/kernel.py",
            "rounding = (2 + math.sqrt(x.shape[1]))",
            "rounding = -(2 + math.sqrt(x.shape[1]))",
            "norms grow, so that equal rows have a distance",
        ),
        M(
            "kernels/kernel.py",
            "            out += v.sum(dim=0)\n",
            "            pass\n",
            "a product without the matrix leaves out the constant",
        ),
        M(
            "kernels/kernel.py",
            "return max(self.inner.work_bytes(b, k, d, itemsize), 2 * itemsize * b * k)",
            "return self.inner.work_bytes(b, k, d, itemsize)",
            "the memory of a kernel with a constant lacks its second matrix",
        ),
        M(
            "kernels/kernel.py",
            "return self.inner.diag(x) + 1",
            "return self.inner.diag(x)",
            "the diagonal leaves out the constant",
        ),
        M(
            "kernels/kernel.py",
            "+ b * row_bytes[0] + c * row_bytes[1]\n\n    longest",
            "+ b * row_bytes[1] + c * row_bytes[0]\n\n    longest",
            "the bytes of reading x and z are swapped in a tile",
        ),
        M(
            "kernels/kernel.py",
            "count * share * shift.square()",
            "share * shift.square()",
            "the variance over groups of rows drops a factor",
        ),
        M(
            "kernels/kernel.py",
            "return squares / (count - 1)",
            "return squares / count",
            "the variance of pairs is that of the population",
        ),
        M(
            "kernels/kernel.py",
            'source = generator(seed, "bandwidth")',
            'source = generator(0, "bandwidth")',
            "the sample of a bandwidth rule ignores the seed",
        ),
        M(
            "kernels/kernel.py",
            'name: str | None = vars(type(self)).get("fused")',
            "name: str | None = self.fused",
            "a derived kernel is computed as its base class",
        ),
        M(
            "kernels/named.py",
            "return 1 / gamma\n",
            "return 1 / math.sqrt(gamma)\n",
            "the bandwidth of the Laplacian is that of a squared distance",
        ),
        M(
            "kernels/named.py",
            "return normal.square_().mean(dim=0).rsqrt_()",
            "return normal.square_().sum(dim=0).rsqrt_()",
            "the spectrum of the Matérn kernels has the wrong scale",
        ),
        M(
            "kernels/kernel.py",
            "return (wide + itemsize) * b * k + 2 * wide * (b + k + 1) * (d + 1)",
            "return itemsize * b * k + 2 * wide * (b + k + 1) * (d + 1)",
            "the memory of Matérn ½ leaves out its float64 distances",
        ),
    ),
    "planning": (
        M(
            "solvers/methods/random_blocks.py",
            '            Item("momentum", _momentum_bytes(size), AFTER_LAYOUT),\n',
            "",
            "the plan leaves out momentum",
        ),
        M(
            "planning/fit.py",
            "changes = 2 if spec.settings.momentum else 1",
            "changes = 1",
            "the plan has one change of the predictions with momentum",
        ),
        M(
            "planning/fit.py",
            "return rows + (itemsize * b * b if momentum else 0)",
            "return rows",
            "the plan leaves out the scaled kernel matrix of momentum",
        ),
        M(
            "planning/fit.py",
            "machines = 1 + (spec.n_lams if spec.scored else 0)",
            "machines = 1",
            "the plan has one machine for all λ of a path",
        ),
        M(
            "solvers/methods/pcg.py",
            "cached_rows(n, block, room - taken - sums, itemsize, n)",
            "cached_rows(n, block, room - sums, itemsize, n)",
            "the kernel cache has the room of the preconditioner too",
        ),
        M(
            "planning/fit.py",
            "columns = spec.columns * (2 if spec.method.averages(spec.size) else 1)",
            "columns = spec.columns",
            "a tile of the gap leaves out the columns of the average",
        ),
        M(
            "planning/plan.py",
            "DECODING_BYTES = 32",
            "DECODING_BYTES = 0",
            "a tile of predictions leaves out their decoding",
        ),
        M(
            "planning/fit.py",
            'Item("the point that is returned", alpha + 2 * image, (EVALUATION, END))',
            'Item("the point that is returned", alpha + image, (EVALUATION, END))',
            "the plan leaves out the image that is computed again",
        ),
        M(
            "planning/fit.py",
            'Item("copies of the state", state * spec.saved_states, (EVALUATION,))',
            'Item("copies of the state", state, (EVALUATION,))',
            "the plan has one copy of the state for any number",
        ),
        M(
            "planning/fit.py",
            "max(self.spec.method.tiles_of_a_step * tile, self._step_bytes(0))",
            "max(tile, self._step_bytes(0))",
            "the smallest budget has one tile where a step holds two",
        ),
        M(
            "planning/fit.py",
            "return without_gaps(budget - max(self.at(STEP), self.at(EVALUATION)), self.spec.device)",
            "return without_gaps(budget - self.at(STEP), self.spec.device)",
            "the scratch space forgets what an evaluation holds",
        ),
        M(
            "planning/fit.py",
            'Item("weights", 8 * all_rows + row_numbers + itemsize * n)',
            'Item("weights", itemsize * n)',
            "the plan leaves out the weights that the user gives",
        ),
        M(
            "planning/plan.py",
            "result.shape, result.dtype, copied, budget, scratch, scaling is None)",
            "result.shape, result.dtype, copied, scratch, scaling is None)",
            "a prediction with another budget has the plan of the last one",
        ),
    ),
    "data": (
        M(
            "data/store/store.py",
            "replace(self, start=self.start + start, stop=self.start + stop, scaling=None)",
            "replace(self, start=start, stop=stop, scaling=None)",
            "a run of a run of rows loses its offset",
        ),
        M(
            "data/store/store.py",
            "stop=self.start + stop, scaling=None)",
            "stop=self.start + stop)",
            "a run of rows has the statistics of all rows",
        ),
        M(
            "data/store/store.py",
            "section.offset + rows.start * section.row_bytes)",
            "section.offset)",
            "the targets of later rows are those of the first",
        ),
        M(
            "data/store/store.py",
            "if int(codes.max()) >= len(self.classes):",
            "if int(codes.max()) > len(self.classes):",
            "the first class without a name is accepted",
        ),
        M(
            "data/store/format.py",
            "header.y.shape[0] != n or header.y.offset < header.x.end",
            "header.y.shape[0] != n",
            "targets that overlap the inputs are accepted",
        ),
        M(
            "data/store/convert.py",
            "np.random.Generator(np.random.PCG64(seed))",
            "np.random.Generator(np.random.PCG64(0))",
            "the order of a store ignores the seed",
        ),
        M(
            "data/store/convert.py",
            '("y", "<f8", (y.shape[1],))',
            '("y", "<f4", (y.shape[1],))',
            "targets are rounded to float32 on their way",
        ),
        M(
            "data/store/convert.py",
            "        self.checksums.append(self.state.hexdigest())\n"
            "        self.state, self.left = hashlib.sha256(), CHECKSUM_BYTES",
            "        self.checksums.append(self.state.hexdigest())\n        self.left = CHECKSUM_BYTES",
            "a checksum counts the bytes of all chunks before",
        ),
        M(
            "data/store/shared.py",
            "place = (2 * i + 1) * count - (other > rank)",
            "place = (2 * i + 1) * count - (other < rank)",
            "two processes give rows at the same place one number",
        ),
        M(
            "data/store/shared.py",
            "wanted = numbers + self.start",
            "wanted = numbers",
            "row numbers of a run of shared rows lose its offset",
        ),
        M(
            "data/store/shared.py",
            "(mean, n * deviation.square(), low, high)",
            "(mean, deviation.square(), low, high)",
            "the deviation over processes drops their rows",
        ),
        M(
            "data/rows.py",
            "return self.whole.take(rows + self.rows.start)",
            "return self.whole.take(rows)",
            "row numbers of a part lose its offset",
        ),
        M(
            "data/scaling.py",
            "self.weight * share * shift.square()",
            "share * shift.square()",
            "the moments of two parts drop a weight",
        ),
    ),
    "tables": (
        M(
            "tables/ensemble.py",
            "if c) / counts.sum())",
            "if c) / max(1, counts.sum() - 1))",
            "a mean of an ensemble has one member too few",
        ),
        M(
            "tables/ensemble.py",
            "counts = counts + one_of_each[chosen]",
            "counts += one_of_each[chosen]",
            "the weights of the best ensemble change with the later ones",
        ),
        M(
            "tables/ensemble.py",
            "result = np.full((len(f), classes), LOWEST)",
            "result = np.zeros((len(f), classes))",
            "a class that a model does not know has the value 0",
        ),
        M(
            "tables/ensemble.py",
            "low = (1 - float(coverage)) / 2",
            "low = 1 - float(coverage)",
            "an interval leaves out the whole error on each side",
        ),
        M(
            "tables/report.py",
            "column.some(order) if column.name == used[j] else column",
            "column.some(order) if column.name != used[j] else column",
            "the importance of a column shuffles all others",
        ),
        M(
            "tables/encoders.py",
            "        scaled[missing] = 0.0\n",
            "",
            "a missing number is not encoded as the mean",
        ),
        M(
            "tables/encoders.py",
            "return fitted, (crossed - mean) / scale\n",
            "return fitted, replace(fitted, frequent=None).transform(column)\n",
            "target encoding of training rows has their own targets",
        ),
        M(
            "tables/encoders.py",
            "default, values, codes = values[0], values[1:], codes[1:]",
            "values, codes = values[1:], codes[1:]",
            "missing values lose the mean of their targets",
        ),
        M(
            "tables/targets.py",
            "_inverse((f + residual) * self.deviation + self.mean, self.form)",
            "_inverse(f * self.deviation + self.mean, self.form)",
            "the smearing estimate leaves out the residuals",
        ),
        M(
            "tables/problem.py",
            "sample_weight=w, labels=labels)",
            "labels=labels)",
            "the loss of held-out rows drops their weights",
        ),
        M(
            "tables/candidates.py",
            "fit_calibration(mean, problem.y[rows], problem.weights(rows))",
            "fit_calibration(mean, problem.y[rows], None)",
            "the calibration of an ensemble drops the weights of rows",
        ),
        M(
            "tables/columns.py",
            "others = sums[group] - targets + prior * near",
            "others = sums[group] + prior * near",
            "the mean of a group has the target of the row itself",
        ),
        M(
            "tables/search.py",
            "self.x / old.astype(np.float32) * new.astype(np.float32)",
            "self.x * new.astype(np.float32)",
            "the inputs of a fold have the weights of all rows too",
        ),
        M(
            "tables/search.py",
            "table, y = problem.inputs.some(train), problem.y[train]",
            "table, y = problem.inputs, problem.y",
            "the encoding of a fold has the targets of its held-out rows",
        ),
        M(
            "tables/plan.py",
            "key=lambda step: (step.effort, step.kind == REFIT)",
            "key=lambda step: (step.kind == REFIT, step.effort)",
            "a smaller effort has other steps than a larger one begins with",
        ),
        M(
            "tables/refit.py",
            "found.held_loss < best.held_loss",
            "found.held_loss > best.held_loss",
            "more effort returns the worse model",
        ),
        M(
            "tuning/validation.py",
            "return [Split(rows[train], rows[held]) for train, held in found",
            "return [Split(rows, rows[held]) for train, held in found",
            "held-out groups are trained on",
        ),
        M(
            "tuning/validation.py",
            "late = times >= cut",
            "late = times <= cut",
            "early rows are held out in place of late ones",
        ),
    ),
    "tuning": (
        M(
            "tuning/splits.py",
            "roc_auc_score(y == label, column, sample_weight=sample_weight)",
            "roc_auc_score(y == label, column)",
            "the ranking of a rare class drops the weights of rows",
        ),
        M(
            "tuning/trials.py",
            "minibatches(np.arange(len(rows)), m, self._seed), y, classes, w)",
            "minibatches(np.arange(len(rows)), m, self._seed), y, classes)",
            "feature weights are fitted without the weights of rows",
        ),
        M(
            "tuning/ard.py",
            "loss = (w[:, None] * wrong.square()).mean()",
            "loss = wrong.square().mean()",
            "the leave-one-out error drops the weights of rows",
        ),
        M(
            "tuning/ard.py",
            "of_diagonal = -(gradient * solved).sum(dim=1) / diagonal.square()",
            "of_diagonal = (gradient * solved).sum(dim=1) / diagonal.square()",
            "a wrong sign in the gradient of the leave-one-out error",
        ),
        M(
            "tuning/halving.py",
            "ordered[max(place - 1, 0) : place + 2]",
            "ordered[max(place - 1, 0) : place + 1]",
            "the next larger λ that was given is not tried",
        ),
        M(
            "tuning/halving.py",
            "(-self.loss - handicap, self.lam)",
            "(-self.loss + handicap, self.lam)",
            "weighted inputs are preferred where they gain nothing",
        ),
        M(
            "tuning/halving.py",
            "before = [trial for trial in self.trials if trial.stage == stage - 1]",
            "before = [trial for trial in self.trials if trial.stage == stage]",
            "a bandwidth that was hopeless before is tried again",
        ),
        M(
            "tuning/trials.py",
            "unit = weight * mean_loss_at_zero(model, targets) / square",
            "unit = mean_loss_at_zero(model, targets) / square",
            "the scale of λ drops the weights of rows",
        ),
        M(
            "tuning/trials.py",
            "bandwidth=self.bandwidth(best, k), random_state",
            "bandwidth=self.bandwidth(best), random_state",
            "held-out residuals have feature weights of their own rows",
        ),
        M(
            "tuning/splits.py",
            "return rows[np.arange(count) * len(rows) // max(1, count)]",
            "return rows[np.arange(count)]",
            "screening rows are the first ones, of the first classes",
        ),
        M(
            "tuning/splits.py",
            "np.setdiff1d(rows, one)",
            "np.setdiff1d(rows, one[:-1])",
            "a held-out row is trained on",
        ),
        M(
            "tuning/trials.py",
            "results[i * len(splits) : (i + 1) * len(splits)]",
            "results[i :: len(candidates)]",
            "the splits of candidates that run together are mixed up",
        ),
        M(
            "tuning/trials.py",
            "resolve.penalties(given.lam)[0] / self._lam_scale(candidate)",
            "resolve.penalties(given.lam)[0]",
            "the default is tried with λ in another unit",
        ),
    ),
    "models": (
        M(
            "models/machine.py",
            "self.weights[:, start:stop].clone()",
            "self.weights[:, start:stop]",
            "some columns share the memory of all weights",
        ),
        M(
            "models/machine.py",
            "torch.cat([self.weights, *(other.weights for other in others)], dim=1)",
            "torch.cat([*(other.weights for other in others), self.weights], dim=1)",
            "joined machines have their columns in another order",
        ),
        M(
            "models/machine.py",
            "left = budget if rows is x else budget - length * x.row_bytes",
            "left = budget",
            "a prediction forgets the rows that it has read",
        ),
        M(
            "models/machine.py",
            "+ side * self.x.row_bytes",
            "",
            "the memory of a tile leaves out the training rows",
        ),
        M(
            "models/machine.py",
            "return self.theta[-1]",
            "return self.theta[0]",
            "the intercept is the weight of the first feature",
        ),
        M(
            "models/machine.py",
            "self.features.apply_bytes(rows, t) + rows * (row_bytes + t * self.theta.element_size())",
            "self.features.apply_bytes(rows, t) + rows * (t * self.theta.element_size())",
            "the memory of a tile leaves out reading its rows",
        ),
        M(
            "models/packing.py",
            "columns.append([starts[place], starts[place + 1]])",
            "columns.append([starts[-2], starts[-1]])",
            "a machine whose weights are in the file already has the last ones",
        ),
        M(
            "models/packing.py",
            "all(start < stop for start, stop in ranges)",
            "all(start <= stop for start, stop in ranges)",
            "a machine without columns is accepted",
        ),
        M(
            "models/packing.py",
            'document = {"constant": kernel is not machine.kernel, "kernel": encode(kernel)}',
            'document = {"constant": False, "kernel": encode(kernel)}',
            "a file loses the intercept of an exact kernel",
        ),
        M(
            "models/packing.py",
            "same = same and all(torch.equal(tensor, tensors[name]) for name, tensor in redrawn.tensors.items())",
            "same = same and redrawn.n_features == inner.n_features",
            "features are saved as a seed that does not reproduce them",
        ),
        M(
            "models/packing.py",
            "if not bool(tensor.isfinite().all()):",
            "if bool(tensor.isnan().any()):",
            "infinite weights are accepted",
        ),
        M(
            "models/files.py",
            "write(path, document, tensors, version=version)",
            "write(path, document, tensors)",
            "every file says that the first version of joker can read it",
        ),
        M(
            "models/files.py",
            "estimator(**earlier | {key: reader.decode(value) for key, value in settings.items()})",
            "estimator(**{key: reader.decode(value) for key, value in settings.items()} | earlier)",
            "defaults of earlier files replace the settings of new ones",
        ),
    ),
}
# The tests of a module that come first. Others are found by their name.
FIRST = {
    "solvers/loop.py": ("test_methods.py", "test_descent.py"),
    "solvers/report.py": ("test_methods.py", "test_state.py"),
    "solvers/state.py": ("test_methods.py", "test_state.py"),
    "solvers/kernel_cache.py": ("test_kept_kernel_rows.py",),
    "solvers/methods/pcg.py": ("test_fit.py", "test_descent.py"),
    "solvers/methods/random_blocks.py": ("test_fit.py", "test_methods.py"),
    "solvers/methods/greedy_blocks.py": ("test_descent.py",),
    "losses/loss.py": ("test_loss_laws.py",),
    "losses/classification.py": ("test_loss_laws.py",),
    "kernels/kernel.py": ("test_with_constant.py", "test_kernels_bandwidth.py", "test_kernels_laws.py"),
    "data/store/format.py": ("test_store_rows.py",),
    "data/rows.py": ("test_store_rows.py",),
    "data/scaling.py": ("test_scaled_rows.py",),
    "models/packing.py": ("test_packed_machines.py",),
    "models/files.py": ("test_packed_machines.py", "test_files.py"),
    "planning/plan.py": ("test_predict.py",),
    "tables/columns.py": ("test_group_columns.py",),
    "tables/plan.py": ("test_plan.py",),
    "tables/problem.py": ("test_candidates.py",),
    "tables/refit.py": ("test_refit.py",),
    "tables/report.py": ("test_report.py",),
    "tables/search.py": ("test_search.py",),
    "tuning/validation.py": ("test_problem.py",),
    "tuning/halving.py": ("test_halving.py", "test_relevance.py"),
    "tuning/splits.py": ("test_rare_class.py",),
    "tuning/trials.py": ("test_trials.py", "test_rare_class.py"),
}


def paths_of(package: str, mutation: Mutation, *, only_first: bool) -> list[str]:
    """Return the tests of a mutation: those of its module, then, unless ``only_first``, all of its package."""
    folder = ROOT / "tests" / package
    named = [path.name for path in sorted(folder.glob(f"test_*{mutation.path.stem}*.py"))]
    first = [folder / name for name in dict.fromkeys([*FIRST.get(mutation.file, ()), *named])]
    found = [path for path in first if path.exists()]
    return [str(path.relative_to(ROOT)) for path in ([*found, folder] if not (only_first and found) else found)]


def check(mutations: list[tuple[str, Mutation]]) -> None:
    """Raise an error if the text of a mutation does not occur once in its file."""
    for package, mutation in mutations:
        count = (SOURCE / mutation.path).read_text(encoding="utf-8").count(mutation.old)
        if count != 1:
            raise SystemExit(
                f"{package}: {mutation.name!r} must occur once in {mutation.path}; it occurs {count} times"
            )


def run_tests(paths: list[str], source: Path, timeout: float) -> tuple[bool, str]:
    """Return whether the tests pass on a copy of the source, and the first that fails."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, *PYTEST, *paths]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"more than {timeout:g} s"
    failed = FAILURE.search(done.stdout)
    return done.returncode == 0, failed[1] if failed else f"pytest ended with {done.returncode}"


class Copy:
    """A copy of the source, of which one file at a time is mutated."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src"
        shutil.copytree(SOURCE, self.source, ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, mutation: Mutation, *, mutated: bool) -> None:
        """Write a file with its mutation, or as it was; a compiled file of the same second would be taken for it."""
        text = (SOURCE / mutation.path).read_text(encoding="utf-8")
        place = self.source / mutation.path
        place.write_text(text.replace(mutation.old, mutation.new) if mutated else text, encoding="utf-8")
        for compiled in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
            compiled.unlink()


def run(
    mutations: list[tuple[str, Mutation]], copy: Copy, timeout: float, *, only_first: bool
) -> Iterator[dict[str, Any]]:
    """Yield the result of each mutation."""
    for package, mutation in mutations:
        started = time.perf_counter()
        copy.write(mutation, mutated=True)
        survived, failed = run_tests(paths_of(package, mutation, only_first=only_first), copy.source, timeout)
        copy.write(mutation, mutated=False)
        yield {
            "package": package,
            "file": mutation.file,
            "name": mutation.name,
            "killed": not survived,
            "by": None if survived else failed,
            "seconds": round(time.perf_counter() - started, 1),
        }


def cpu_model() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    found = (
        re.search(r"^model name\s*: (.+)$", info.read_text(encoding="utf-8"), re.MULTILINE) if info.exists() else None
    )
    return found[1] if found else platform.machine()


def machine() -> dict[str, Any]:
    """Describe the machine and the run."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "command": " ".join(["python", "tests/mutations.py", *sys.argv[1:]]),
    }


def counts(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the killed mutations of each package and in all, of all mutations."""
    parts = {package: [one for one in results if one["package"] == package] for package in MUTATIONS}
    return {
        name: f"{sum(one['killed'] for one in part)} of {len(part)}"
        for name, part in {**parts, "all": results}.items()
        if part
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", choices=MUTATIONS, help="the mutations of one package only")
    parser.add_argument("--only", default="", help="mutations whose name or file contains this text")
    parser.add_argument("--list", action="store_true", help="check the mutations and list them, without a test")
    parser.add_argument(
        "--first", action="store_true", help="only the tests of the module, without those of the package"
    )
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds of the tests of one mutation")
    parser.add_argument("--results", type=Path, help="the file to which results are written, as JSON")
    return parser.parse_args()


def main() -> int:
    """Run the mutations that were asked for."""
    options = arguments()
    mutations = [
        (package, mutation)
        for package, some in MUTATIONS.items()
        for mutation in some
        if options.package in (None, package) and (options.only in mutation.name or options.only in mutation.file)
    ]
    check(mutations)
    if options.list:
        for package, mutation in mutations:
            print(f"{package:9} {mutation.name} ({mutation.file})")
        return 0
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Copy(Path(folder))
        for package in dict.fromkeys(package for package, _ in mutations):
            own = [mutation for other, mutation in mutations if other == package]
            paths = dict.fromkeys(path for one in own for path in paths_of(package, one, only_first=options.first))
            passed, failed = run_tests(list(paths), copy.source, 4 * options.timeout)
            if not passed:
                print(f"the tests of {package} must pass without a mutation: {failed}")
                return 2
        for number, result in enumerate(run(mutations, copy, options.timeout, only_first=options.first), 1):
            results.append(result)
            outcome = f"killed by {result['by']}" if result["killed"] else "SURVIVED"
            place = f"{number:3}/{len(mutations)} {result['package']}: {result['name']}"
            print(f"{place}: {outcome} ({result['seconds']} s)", flush=True)
    print(json.dumps(counts(results), indent=1))
    if options.results:
        content = {"machine": machine(), "killed": counts(results), "mutations": results}
        options.results.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if all(result["killed"] for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
