"""The documentation of what all estimators have in common, written once."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import cleandoc
from typing import TypeVar

SHARED = """
lam : float or sequence of float
    The penalty λ. A sequence fits all values in one pass, as columns, and keeps the one with the
    smallest mean loss on held-out rows; all are in ``path_``. Smaller fits the training rows closer.
kernel : str or Kernel
    ``"gaussian"``, ``"laplacian"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"cauchy"``,
    ``"linear"``, ``"polynomial"``, or a kernel of :mod:`joker.kernels` or of your own.
bandwidth : {"auto", "median", "paper"}, float or array of shape (d,)
    The kernel's length scale σ, or a rule that reads it off the distinct rows of positive weight; 1 where
    there is only one such row. ``"median"`` is the median distance of two rows. ``"auto"`` keeps the bandwidth
    of a Kernel object, and is half the median for a name (the median for the polynomial kernel). An array has
    a bandwidth for each input, which is divided by it: a small one makes an input count, a large one forgets it.
n_features : int, None or "auto"
    The number of random features; None is the kernel itself. ``"auto"`` is the kernel itself up to
    50,000 rows and 4,000 features beyond, or wherever ``features`` names a kind; the linear kernel is its own map, with
    a feature for each input. Beyond 10,000 rows the Laplacian, and kernels of your own that are not radial, need
    features where X has more than a million numbers.
features : str
    The kind of features: ``"fourier"``, ``"fourier_pairs"``, ``"orthogonal"``, ``"structured"``,
    ``"tensor_sketch"``; ``"auto"`` is the kernel's default.
block_size : int or "auto"
    Rows in a block. ``"auto"`` is one block up to 2,048 rows and blocks of 512 beyond; fewer where ``memory`` asks
    for it, or where X is sparse and so wide that the rows of a block, made dense, would take half of the scratch space.
max_epochs : float
    Passes over the rows. A problem in one block is solved to ``tol`` whatever this says.
tol : float
    The relative duality gap to stop at.
max_time : float
    Seconds after which no further block is begun.
averaging : bool
    Whether to return the average of the iterates, where its gap is smaller than that of the last one.
momentum : bool
    Whether to accelerate; pays where the gap is to become small over tens of epochs.
fit_intercept : bool
    Whether to add an intercept: the weight of a feature that is always 1, penalised by λ/2 times its
    square like every other weight. A regressor first moves the targets by their weighted mean, so that
    a large offset costs nothing.
standardize : bool
    Whether to take each input as its z-score, by the mean and deviation of the rows that are trained on, weighted as
    they are. Rows are scaled as they are handed out, without a second copy, and ``predict`` takes them raw.
    An input that does not vary there counts for nothing. ``bandwidth`` is then in units of the deviation.
early_stopping : bool, str or callable
    Whether to stop when a score on held-out rows has not risen for three epochs, and to return the model of the
    best epoch (and of the best λ of a path). True is minus the mean loss; else the name of a scikit-learn
    scorer, such as ``"accuracy"``, or a function of a fitted estimator, X and y. A scorer gets the held-out rows that
    have a weight, without their weights. See :class:`joker.callbacks.EarlyStopping` for another patience.
validation_fraction : float
    The share of rows to hold out where ``lam`` is a sequence or the fit is to stop early, and ``fit`` is given no
    ``eval_set``. They are not trained on.
warm_start : bool
    Whether to go on from the fit before. With the same data and settings up to ``max_epochs`` further epochs are run:
    3 and then 2 give what 5 give. With the same rows, kernel and columns, but other targets, weights, loss or
    λ, the fit begins with the old α; else anew. Keeps the state of the solve in the estimator.
device : str, torch.device or None
    Where to compute; None is where X lies if it is a tensor, else the CPU.
dtype : {"auto", "float32", "float64"}
    What to compute in; ``"auto"`` is float64 where the problem fits one block, else float32.
precision : {"auto", "mixed", "float32", "float64"}
    ``"mixed"`` is float32 with the kernel among the rows of a block on the tensor cores of a CUDA card: it
    shapes the steps and does not move the solution. ``"auto"`` is float64 where the problem fits one block, else
    mixed; on the CPU mixed is the same as float32.
memory : int, str or "auto"
    The most memory that ``fit`` and ``predict`` may take, such as ``"500MB"``: what the process grows by on the CPU,
    what is allocated on a card. Where it is tight, blocks, parts of the features and tiles become small;
    ``plan`` shows how. ``"auto"`` bounds the scratch space alone, by 256 MiB on the CPU and 1 GiB on a card.
callbacks : sequence of Callback or None
    What is to watch the fit: :class:`joker.callbacks.Checkpoint`, ``JsonLog``, ``TimeLimit``, ``EarlyStopping``,
    ``Progress`` or your own. Those of scikit-learn 1.9 go to ``set_callbacks``.
verbose : {0, 1}
    1 shows a progress line on a terminal, and a line at the end elsewhere.
random_state : int, RandomState or None
    Seeds features, blocks, the bandwidth's sample and the held-out rows. A warm start keeps the seed of the fit
    before where this is not a number.

Attributes
----------
dual_coef_ : ndarray of shape (n,) or (n, t)
    α, with the kernel itself: ``f(x) = Σ α_i k(x, x_i) + intercept_``.
coef_ : ndarray of shape (m,) or (t, m)
    θ, with features or the linear kernel.
intercept_ : float or ndarray of shape (t,)
    The intercept; 0 without one.
mean_, scale_ : ndarray of shape (d,)
    With ``standardize`` the mean and the deviation of each input; a deviation of 0 marks one that does not vary.
lam_ : float
    λ of the model.
bandwidth_ : float or ndarray of shape (d,)
    σ of the model, or that of each input.
gap_ : float
    The relative duality gap of the model's worst column: how far at most, as a share of the
    objective, from the best there is.
n_iter_ : int
    Passes over the rows, up to the model: with early stopping, those of the best epoch.
history_ : list of dict
    For every epoch that was run: ``epoch``, ``seconds``, ``primal`` and ``dual`` (bounds on the optimum of the
    objective over λ, from above and below, all columns together), ``gap`` (relative, worst column),
    ``validation_score`` (of this λ, where rows are held out) and ``peak_bytes`` (the most memory held so far, by
    torch on a card, else by the process). The first also has ``plan``, the numbers of ``plan_``.
plan_ : Plan
    What the fit held in memory, as it was planned; ``print`` shows a table.
stop_reason_ : str
    Why the solve ended.
path_ : Path
    Where rows are held out (a path, early stopping) or with ``eval_set``: ``lam``, ``scores``, a fitted estimator
    for each λ in ``models``.
n_features_in_ : int
    The number of inputs d.
schema_ : Schema
    Names and kinds of the inputs, where the rows were those of a row store.
feature_names_in_ : ndarray of str
    Their names, where X has any.
"""

Documented = TypeVar("Documented", bound=type)


def documented(cls: Documented) -> Documented:
    """Put the shared text into the docstring of a dataclass at ``%(shared)s``, and the default of each parameter."""
    text = cleandoc(cls.__doc__ or "").replace("%(shared)s", SHARED.strip())
    for field in fields(cls):
        text = re.sub(rf"^{field.name} : .*", rf"\g<0>, default={field.default!r}", text, count=1, flags=re.MULTILINE)
    cls.__doc__ = text
    return cls
