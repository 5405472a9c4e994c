"""The documentation of the parameters and attributes that all estimators share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import cleandoc
from typing import TypeVar

SHARED_DOCSTRING = """
lam : float or sequence of float
    The penalty λ; a smaller one fits the training rows more closely. A sequence fits all values in one pass, as
    columns, and keeps the one with the smallest mean loss on held-out rows. All models are in ``path_``.
kernel : str, Kernel or callable
    ``"gaussian"``, ``"laplacian"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"cauchy"``,
    ``"linear"``, ``"polynomial"``, or a kernel of :mod:`joker.kernels` or of your own. With ``"precomputed"`` X is the
    kernel matrix: (n, n) in ``fit``, and in ``predict`` a row for each new row with a column for each training row. A
    function of two arrays of rows, ``f(A, B)``, returns their kernel matrix ``(len(A), len(B))``; it is called for
    parts of the rows, by several threads. Both must be symmetric and positive semidefinite, which is checked on a
    sample, and have no bandwidth, random features or GPU.
bandwidth : {"auto", "median", "paper"}, float or array of shape (d,)
    The length scale σ of the kernel, or a rule that computes it from the distinct rows of positive weight; it is 1 if
    there is only one such row. ``"median"`` is the median distance between two rows. ``"auto"`` keeps the bandwidth of
    a Kernel object; for a name it is half the median (the median for the polynomial kernel). An array has a bandwidth
    for each input, which is divided by it: an input with a small bandwidth matters more.
n_features : int, None or "auto"
    The number of random features; None uses the exact kernel. ``"auto"`` uses the exact kernel up to 50,000 rows, and
    4,000 features with more rows or if ``features`` names a kind. The Laplacian, and kernels of your own that are not
    radial, use features with more than 10,000 rows if X also has more than a million numbers. The linear kernel always
    has one feature for each input.
features : str
    The kind of features: ``"fourier"``, ``"fourier_pairs"``, ``"orthogonal"``, ``"structured"``,
    ``"tensor_sketch"``; ``"auto"`` is the default of the kernel.
block_size : int or "auto"
    The number of rows in a block. ``"auto"`` is one block up to 2,048 rows, or up to 1,024 where greedy blocks are used
    on the CPU. With more rows it is 512, or 1,024 with the exact kernel on the CPU. Blocks are smaller if ``memory``
    requires it, or if X is sparse and a block of dense rows would take half of the scratch space.
max_epochs : float or "auto"
    The maximum number of epochs; an epoch evaluates as many kernel entries or features as one pass over the rows.
    ``"auto"`` is 5 with features. With the exact kernel it allows 5e10 kernel evaluations, in 5 to 1,000 epochs: 500
    for 10,000 rows, 20 for 50,000. A problem in one block is always solved to ``tol``.
tol : float
    The relative duality gap at which to stop.
max_time : float
    The time in seconds after which no further block is begun.
method : {"auto", "random_blocks", "greedy_blocks", "column_blocks", "conjugate_gradients", "newton"}
    How the problem is solved. With the exact kernel ``"auto"`` uses conjugate gradients for the squared loss, and
    greedy blocks for every other loss, or column blocks for many columns on a CPU, if the loss has a quadratic dual and
    the kernel matrix fits the memory. It uses Newton's method where the whole solution is asked for and features are
    few, inputs of the linear kernel are sparse, or the kernel matrix has a low rank and λ is small. With features it
    uses conjugate gradients for the squared loss and one λ, if the
    Gram matrix of the features fits the memory and n m² is at most 2e12 (1e15 on a GPU). Otherwise, in one block, and
    with ``momentum``, it uses random blocks.
averaging : bool
    Whether to return the average of the iterates of random blocks, if its gap is smaller than that of the last iterate.
momentum : bool
    Whether to accelerate random blocks. This helps if the gap has to become small over tens of epochs.
fit_intercept : bool
    Whether to add an intercept: the weight of a feature that is always 1, penalised by λ/2 times its square like every
    other weight. A regressor first subtracts the weighted mean from the targets, so that a large offset is not
    penalised.
standardize : bool or "auto"
    Whether to replace each input by its z-score, with the weighted mean and deviation of the training rows. Rows are
    scaled when they are read, without a second copy, and ``predict`` takes unscaled rows. A constant input has no
    effect. ``bandwidth`` is then in units of the deviation. ``"auto"`` does so unless X is sparse, ``bandwidth`` is an
    array, ``kernel`` is a matrix or a function, or the inputs are on one scale: the largest deviation is at most three
    times the smallest, or nine inputs in ten have a range of at least half the largest one. Then ``mean_`` does not
    exist.
early_stopping : bool, str or callable
    Whether to stop when a score on held-out rows has not risen for three epochs, and to return the model of the best
    epoch (and of the best λ of a path). With True the score is minus the mean loss. It can also be the name of a
    scikit-learn scorer, such as ``"accuracy"``, or a function of a fitted estimator, X and y. A scorer is given the
    held-out rows of positive weight, without their weights. For another patience see
    :class:`joker.callbacks.EarlyStopping`.
validation_fraction : float
    The share of rows to hold out if ``lam`` is a sequence or the fit stops early, and ``fit`` is given no ``eval_set``.
    The fit does not train on these rows.
warm_start : bool
    Whether to continue from the fit before. With the same data and settings, up to ``max_epochs`` further epochs are
    run: 3 and then 2 give the same as 5. With the same rows, kernel and number of columns, but other targets, weights,
    loss or λ, the fit begins with the old α. Otherwise it begins at zero. The estimator keeps the solver's state.
device : str, torch.device or None
    Where to compute. None is the device of X if X is a tensor, else the CPU.
dtype : {"auto", "float32", "float64"}
    The type to compute in. ``"auto"`` is that of ``precision``.
precision : {"auto", "mixed", "float32", "float64"}
    ``"mixed"`` is float32, with the kernel among the rows of a block computed on the tensor cores of a CUDA GPU. This
    changes the steps and not the solution. ``"auto"`` is float64 if the problem fits one block, if ``kernel`` is a
    matrix or a function, for Newton's method, and with the exact kernel where rounding errors of float32, measured on
    some rows, are too large for λ, the weights and ``tol``; else mixed. ``plan_.why_dtype`` has the reason. On the CPU,
    mixed is the same as float32.
memory : int, str or "auto"
    The maximum memory of ``fit`` and ``predict``, such as ``"500MB"``: the growth of the process on the CPU, the
    allocated memory on a GPU. With less memory, blocks, chunks of the features and tiles are smaller; ``plan`` shows
    their sizes. ``"auto"`` limits only the scratch space, to 256 MiB on the CPU and 1 GiB on a GPU, and rows of the
    kernel matrix that are kept on the CPU, to 2 GiB or a quarter of the main memory.
callbacks : sequence of Callback or None
    Objects that are called during the fit: :class:`joker.callbacks.Checkpoint`, ``JsonLog``, ``TimeLimit``,
    ``EarlyStopping``, ``Progress`` or your own. Use ``set_callbacks`` for those of scikit-learn 1.9.
verbose : {0, 1}
    1 shows a progress line on a terminal. If standard error is not a terminal, it prints one line at the end.
random_state : int, RandomState or None
    The seed of the features, the blocks, the sample for the bandwidth and the held-out rows. A warm start keeps the
    seed of the fit before if this is not a number.

Attributes
----------
dual_coef_ : ndarray of shape (n,) or (n, t)
    α, with the exact kernel: ``f(x) = Σ α_i k(x, x_i) + intercept_``.
coef_ : ndarray of shape (m,) or (t, m)
    θ, with features or the linear kernel.
intercept_ : float or ndarray of shape (t,)
    The intercept; 0 without one.
mean_, scale_ : ndarray of shape (d,)
    If inputs were standardised, the mean and the deviation of each input; the deviation of a constant input is 0.
lam_ : float
    The λ of the model.
bandwidth_ : float or ndarray of shape (d,)
    The σ of the model, or that of each input.
gap_ : float
    The relative duality gap of the worst column: a bound on the distance to the optimum, as a share of the objective.
n_iter_ : int
    The number of passes over the rows for this model; with early stopping, up to the best epoch.
history_ : list of dict
    For every epoch: ``epoch``, ``seconds``, ``primal`` and ``dual`` (upper and lower bounds on the minimum of the
    objective over λ, summed over columns), ``gap`` (relative, of the worst column), ``validation_score`` (of this λ, if
    rows are held out; not after each of many short epochs) and ``peak_bytes`` (the maximum memory so far, of torch on a
    GPU, else of the process). The first entry also has ``plan``, the numbers of ``plan_``.
plan_ : Plan
    The planned memory of the fit; ``print`` shows a table.
stop_reason_ : str
    The reason why the solver stopped.
conclusion_ : str
    What ``gap_`` and the last epoch mean, in words. A fit that ends with a gap of more than 10% while its objective
    still falls also warns (:class:`joker.errors.ConvergenceWarning`).
path_ : Path
    If rows are held out (for a path of λ or early stopping), or with ``eval_set``: ``lam``, ``scores``, and a fitted
    estimator for each λ in ``models``.
n_features_in_ : int
    The number of inputs d.
schema_ : Schema
    The names and kinds of the inputs, if the rows come from a row store.
feature_names_in_ : ndarray of str
    The names of the inputs, if X has any.
"""

SCALE_TARGET_DOCSTRING = """
scale_target : bool
    Whether to divide the targets by their weighted standard deviation on the training rows before the fit, each output
    by its own; without an intercept, by their root mean square. Predictions are in units of y. The loss, λ, the scores
    of ``path_`` and ``history_`` are those of the scaled targets. The squared loss gives the same predictions with and
    without scaling.
"""

CLASSIFIER_DOCSTRING = f"""
class_weight : dict, "balanced" or None
    A factor for the weights of each class; ``"balanced"`` gives all classes the same total weight.
calibrate : bool
    Whether to hold out rows, or to use ``eval_set``, to choose probabilities from the decision function; see
    ``predict_proba``.
{SHARED_DOCSTRING.strip()}
classes_ : ndarray
    The classes, sorted.
"""

Documented = TypeVar("Documented", bound=type)


OF_LAM = ("lam_", "path_")  # attributes of the estimators with the parameter lam


def _absent(cls: type) -> list[str]:
    """Return the parameters and attributes of the shared text that a class does not have."""
    absent = [field.name for field in fields(cls) if not field.init]
    return [*absent, *OF_LAM] if "lam" in absent else absent


def documented_with(texts: Mapping[str, str]) -> Callable[[Documented], Documented]:
    """Return a class decorator that inserts ``texts["name"]`` for ``%(name)s``, and the default of each parameter."""

    def documented(cls: Documented) -> Documented:
        text = cleandoc(cls.__doc__ or "")
        for name, shared in texts.items():
            text = text.replace(f"%({name})s", shared.strip())
        for name in _absent(cls):
            text = re.sub(rf"^{name} : .*\n(?: .*\n)*", "", text, count=1, flags=re.MULTILINE)
        for field in fields(cls):
            default = rf"\g<0>, default={field.default!r}"
            text = re.sub(rf"^{field.name} : .*", default, text, count=1, flags=re.MULTILINE)
        cls.__doc__ = text
        return cls

    return documented


documented = documented_with(
    {"shared": SHARED_DOCSTRING, "scale_target": SCALE_TARGET_DOCSTRING, "classifier": CLASSIFIER_DOCSTRING}
)

TRANSFORMER_PARAMETERS = ("kernel", "bandwidth", "features", "standardize", "device", "memory", "random_state")
TRANSFORMER_ATTRIBUTES = ("mean_, scale_", "bandwidth_", "n_features_in_", "schema_", "feature_names_in_")


def _entries(names: tuple[str, ...]) -> str:
    """Return the entries of the shared text for these parameters or attributes."""
    found = (re.search(rf"^{name} : .*\n(?: .*\n)*", SHARED_DOCSTRING, re.MULTILINE) for name in names)
    return "".join(entry[0] for entry in found if entry)


documented_transformer = documented_with(
    {"shared": f"{_entries(TRANSFORMER_PARAMETERS)}\nAttributes\n----------\n{_entries(TRANSFORMER_ATTRIBUTES)}"}
)
