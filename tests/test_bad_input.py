"""Bad input is refused at the border, by an error that states the rule, what was found and the remedy."""

import math
import re

import numpy as np
import pytest
import torch

import joker
from joker import errors, kernels, losses
from joker.errors import BudgetTooSmall, DegenerateBandwidth, InvalidData, InvalidParameter, JokerError, UnknownName
from joker.solvers import Settings

N, D = 24, 3
DRAW = torch.Generator().manual_seed(0)
X = torch.randn(N, D, generator=DRAW)
Y = torch.randn(N, generator=DRAW)
LABELS = torch.where(Y > 0, 1.0, -1.0)
ONES = torch.ones(N)
LEVELS = torch.tensor([0.1, 0.5, 0.9])
NAN, INF = math.nan, math.inf


def prepare(x=X, y=Y, **keywords):
    return joker.prepare(x, y, **keywords)


def settings(**values):
    return prepare(settings=Settings(**values))


def with_entry(tensor, place, value):
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


def machine(**keywords):
    return prepare(**keywords).run()[0]


PENALTY = "lam must be positive and finite"
BANDWIDTH = "bandwidth must be a positive finite number"
MEMORY = "memory must be a positive number of bytes"
# A call, its error, and fragments of the rule, of what was found and of the remedy.
TABLE = {
    # rows
    "x nan": (
        lambda: prepare(with_entry(X, (5, 2), NAN)),
        InvalidData,
        "X must be finite",
        "nan at row 5, column 2",
        "Remove or impute",
    ),
    "x inf": (
        lambda: prepare(with_entry(X, (0, 1), INF)),
        InvalidData,
        "X must be finite",
        "inf at row 0, column 1",
        "Remove or impute",
    ),
    "x -inf": (
        lambda: prepare(with_entry(X, (23, 0), -INF)),
        InvalidData,
        "X must be finite",
        "-inf at row 23, column 0",
        "Remove",
    ),
    "x no rows": (lambda: prepare(X[:0], Y[:0]), InvalidData, "at least one row", "got shape (0, 3)", "Add data"),
    "x no inputs": (lambda: prepare(X[:, :0]), InvalidData, "one input", "got shape (24, 0)", "Add data"),
    "x 1-d": (lambda: prepare(X[:, 0]), InvalidData, "X must have two dimensions", "got shape (24,)", "X[:, None]"),
    "x 3-d": (lambda: prepare(X[None]), InvalidData, "X must have two dimensions", "got shape (1, 24, 3)", "Reshape"),
    "x list": (lambda: prepare(X.tolist()), InvalidData, "X must be a torch tensor", "got list", "torch.as_tensor(X)"),
    "x numpy": (
        lambda: prepare(X.numpy()),
        InvalidData,
        "X must be a torch tensor",
        "got ndarray",
        "torch.as_tensor(X)",
    ),
    "x int": (
        lambda: prepare(X.int()),
        InvalidData,
        "X must be float32 or float64",
        "got int32",
        "X.to(torch.float32)",
    ),
    "y float16": (
        lambda: prepare(y=Y.half()),
        InvalidData,
        "y must be float32 or float64",
        "got float16",
        "Convert it first",
    ),
    "x float16": (
        lambda: prepare(X.half()),
        InvalidData,
        "X must be float32 or float64",
        "got float16",
        "X.to(torch.float32)",
    ),
    "x sparse by columns": (
        lambda: prepare(X.to_sparse_csc()),
        InvalidData,
        "X must be a dense tensor",
        "sparse_csc",
        "X.to_dense()",
    ),
    # targets
    "y nan": (
        lambda: prepare(y=with_entry(Y, 7, NAN)),
        InvalidData,
        "y must be finite",
        "found nan at row 7",
        "Remove or impute",
    ),
    "y inf": (
        lambda: prepare(y=with_entry(Y[:, None], (7, 0), INF)),
        InvalidData,
        "y must be finite",
        "inf at row 7, column 0",
        "Remove",
    ),
    "y empty": (lambda: prepare(y=Y[:0]), InvalidData, "n and t at least 1", "got shape (0,)", "Reshape"),
    "y 3-d": (lambda: prepare(y=Y[:, None, None]), InvalidData, "(n,) or (n, t)", "got shape (24, 1, 1)", "Reshape"),
    "y list": (
        lambda: prepare(y=Y.tolist()),
        InvalidData,
        "y must be a torch tensor",
        "got list",
        "torch.as_tensor(y)",
    ),
    "y numpy": (
        lambda: prepare(y=Y.numpy()),
        InvalidData,
        "y must be a torch tensor",
        "got ndarray",
        "torch.as_tensor(y)",
    ),
    "y none": (lambda: prepare(y=None), InvalidData, "y must be a torch tensor", "got NoneType", "torch.as_tensor(y)"),
    "y int": (
        lambda: prepare(y=LABELS.long(), loss="hinge"),
        InvalidData,
        "y must be float32 or float64",
        "got int64",
        "y.to(",
    ),
    "y bool": (
        lambda: prepare(y=Y > 0, loss="hinge"),
        InvalidData,
        "y must be float32 or float64",
        "got bool",
        "y.to(",
    ),
    "y fewer": (lambda: prepare(y=Y[:20]), InvalidData, "the same number of rows", "got 24 and 20", "Check"),
    "y more": (lambda: prepare(X[:20]), InvalidData, "the same number of rows", "got 20 and 24", "Check"),
    "y 0/1": (lambda: prepare(y=(Y > 0).float(), loss="hinge"), InvalidData, "y must be -1 or 1", "found 0", "Encode"),
    "y 1/2": (
        lambda: prepare(y=LABELS + 3, loss="logistic"),
        InvalidData,
        "y must be -1 or 1",
        "found",
        "Encode one class",
    ),
    "y numbers": (lambda: prepare(loss="squared_hinge"), InvalidData, "y must be -1 or 1", "found", "Encode one class"),
    # penalties and weights
    "lam 0": (lambda: prepare(lam=0), InvalidParameter, PENALTY, "got lam=0", "such as 1e-3"),
    "lam -1": (lambda: prepare(lam=-1.0), InvalidParameter, PENALTY, "got lam=-1.0", "such as 1e-3"),
    "lam nan": (lambda: prepare(lam=NAN), InvalidParameter, PENALTY, "got lam=nan", "such as 1e-3"),
    "lam inf": (lambda: prepare(lam=INF), InvalidParameter, PENALTY, "got lam=inf", "such as 1e-3"),
    "lam path": (lambda: prepare(lam=[1.0, 0.0]), InvalidParameter, PENALTY, "got lam=[1.0, 0.0]", "such as 1e-3"),
    "lam empty": (lambda: prepare(lam=[]), InvalidParameter, PENALTY, "got lam=[]", "such as 1e-3"),
    "lam str": (lambda: prepare(lam="x"), InvalidParameter, PENALTY, "got lam='x'", "such as 1e-3"),
    "lam none": (lambda: prepare(lam=None), InvalidParameter, PENALTY, "got lam=None", "such as 1e-3"),
    "lam tiny": (lambda: prepare(lam=1e-42), InvalidParameter, "rounded to float32", "got lam=1e-42", "such as 1e-3"),
    "lam columns": (
        lambda: prepare(y=torch.ones(N, 2), lam=[1.0] * 3),
        InvalidData,
        "the same number of columns",
        "[2, 3]",
        "Give",
    ),
    "weights short": (
        lambda: prepare(weights=ONES[:5]),
        InvalidData,
        "each of the 24 rows",
        "got shape (5,)",
        "Give one weight a row",
    ),
    "weights negative": (
        lambda: prepare(weights=-ONES),
        InvalidData,
        "weights must be at least 0",
        "found -1",
        "Use 0 to leave",
    ),
    "weights zero": (
        lambda: prepare(weights=0 * ONES),
        InvalidData,
        "must not all be 0",
        "every row is left out",
        "at least one row",
    ),
    "weights nan": (
        lambda: prepare(weights=NAN * ONES),
        InvalidData,
        "weights must be finite",
        "found nan at row 0",
        "Remove",
    ),
    "weights list": (
        lambda: prepare(weights=[1.0] * N),
        InvalidData,
        "weights must be a torch tensor",
        "got list",
        "torch.as_tensor",
    ),
    "weights str": (
        lambda: prepare(weights="balanced"),
        InvalidData,
        "weights must be a torch tensor",
        "got str",
        "torch.as_tensor",
    ),
    # losses
    "loss unknown": (
        lambda: prepare(loss="hubr"),
        UnknownName,
        "loss must be one of absolute,",
        "got 'hubr'",
        "Did you mean 'huber'?",
    ),
    "loss class": (
        lambda: prepare(loss=losses.Huber),
        UnknownName,
        "loss must be one of",
        "got <class",
        "squared_hinge",
    ),
    "loss none": (lambda: prepare(loss=None), UnknownName, "loss must be one of", "got None", "squared_hinge"),
    "loss columns": (
        lambda: prepare(loss=losses.Quantile(LEVELS)),
        InvalidData,
        "a loss with 3 columns",
        "they have 1",
        "expand(-1, 3)",
    ),
    "loss other columns": (
        lambda: prepare(y=torch.ones(N, 2), loss=losses.Quantile(LEVELS)),
        InvalidData,
        "a loss with 3 columns",
        "they have 2",
        "expand(-1, 3)",
    ),
    # kernels and bandwidths
    "kernel unknown": (
        lambda: prepare(kernel="gausian"),
        UnknownName,
        "kernel",
        "got 'gausian'",
        "Did you mean 'gaussian'?",
    ),
    "kernel none": (lambda: prepare(kernel=None), UnknownName, "must be one of cauchy,", "got None", "gaussian"),
    "bandwidth rule": (
        lambda: prepare(bandwidth="medain"),
        UnknownName,
        "one of median, paper",
        "got 'medain'",
        "Did you mean 'median'?",
    ),
    "bandwidth 0": (lambda: prepare(bandwidth=0), InvalidParameter, BANDWIDTH, "got 0", "Use a number such as 1.0"),
    "bandwidth -1": (
        lambda: prepare(bandwidth=-1.0),
        InvalidParameter,
        BANDWIDTH,
        "got -1.0",
        "Use a number such as 1.0",
    ),
    "bandwidth nan": (
        lambda: prepare(bandwidth=NAN),
        InvalidParameter,
        BANDWIDTH,
        "got nan",
        "Use a number such as 1.0",
    ),
    "bandwidth list": (
        lambda: prepare(bandwidth=[1.0]),
        InvalidParameter,
        BANDWIDTH,
        "got [1.0]",
        "Use a number such as 1.0",
    ),
    "constant median": (
        lambda: prepare(0 * X + 0.1),
        DegenerateBandwidth,
        "needs rows that differ",
        "the median distance over 24 rows is 0",
        "bandwidth=1.0",
    ),
    "constant paper": (
        lambda: prepare(0 * X + 0.1, bandwidth="paper"),
        DegenerateBandwidth,
        "needs rows that differ",
        "distance over 24 rows is 0",
        "bandwidth=1.0",
    ),
    "one row": (
        lambda: prepare(X[:1], Y[:1]),
        DegenerateBandwidth,
        "needs rows that differ",
        "over 1 rows",
        "bandwidth=1.0",
    ),
    # features
    "features unknown": (
        lambda: prepare(n_features=10, features="furier"),
        UnknownName,
        "features must be one of",
        "got 'furier'",
        "Did you mean 'fourier'?",
    ),
    "features alone": (
        lambda: prepare(features="fourier"),
        InvalidParameter,
        "need their number, n_features",
        "n_features=None",
        "Give n_features",
    ),
    "features unsuited": (
        lambda: prepare(n_features=10, features="orthogonal", kernel="laplacian"),
        InvalidParameter,
        "needs a rotation-invariant kernel",
        "the laplacian kernel is not one",
        "Use features=",
    ),
    "n_features 0": (
        lambda: prepare(n_features=0),
        InvalidParameter,
        "n_features must be a whole number of at least 1",
        "got 0",
        "Use 1000",
    ),
    "n_features -1": (
        lambda: prepare(n_features=-1),
        InvalidParameter,
        "n_features must be a whole number",
        "got -1",
        "Use 1000",
    ),
    "n_features 2.5": (
        lambda: prepare(n_features=2.5),
        InvalidParameter,
        "n_features must be a whole number",
        "got 2.5",
        "Use 1000",
    ),
    "n_features str": (
        lambda: prepare(n_features="many"),
        InvalidParameter,
        "n_features must be a whole number",
        "got 'many'",
        "Use 1000",
    ),
    # memory
    "memory str": (lambda: prepare(memory="lots"), InvalidParameter, MEMORY, "got 'lots'", "with the unit B, kB"),
    "memory 0": (lambda: prepare(memory=0), InvalidParameter, MEMORY, "got 0", "with the unit B, kB"),
    "memory none": (lambda: prepare(memory=None), InvalidParameter, MEMORY, "got None", "with the unit B, kB"),
    "memory float": (lambda: prepare(memory=1e9), InvalidParameter, MEMORY, "got 1000000000.0", "with the unit B, kB"),
    "memory exact": (
        lambda: prepare(memory=10),
        BudgetTooSmall,
        "at least one entry of the gaussian kernel matrix",
        "10 B is given",
        "Use memory=",
    ),
    "memory features": (
        lambda: prepare(memory=10, n_features=50),
        BudgetTooSmall,
        "at least one row of features",
        "10 B is given",
        "Use memory=",
    ),
    # settings
    "settings dict": (
        lambda: prepare(settings={"tol": 1}),
        InvalidParameter,
        "settings must be a joker.solvers.Settings",
        "got {'tol': 1}",
        "Settings(",
    ),
    "block_size 0": (
        lambda: settings(block_size=0),
        InvalidParameter,
        "block_size must be a whole number of at least 1",
        "got 0",
        "Use 512",
    ),
    "block_size 2.5": (
        lambda: settings(block_size=2.5),
        InvalidParameter,
        "block_size must be a whole number",
        "got 2.5",
        "Use 512",
    ),
    "block_size str": (
        lambda: settings(block_size="512"),
        InvalidParameter,
        "block_size must be a whole number",
        "got '512'",
        "Use 512",
    ),
    "max_epochs -1": (
        lambda: settings(max_epochs=-1),
        InvalidParameter,
        "max_epochs must be a number of at least 0",
        "got max_epochs=-1",
        "max_epochs=5",
    ),
    "max_epochs nan": (
        lambda: settings(max_epochs=NAN),
        InvalidParameter,
        "max_epochs must be",
        "got max_epochs=nan",
        "max_epochs=5",
    ),
    "max_epochs str": (
        lambda: settings(max_epochs="5"),
        InvalidParameter,
        "max_epochs must be a number",
        "got max_epochs='5'",
        "max_epochs=5",
    ),
    "tol -1": (
        lambda: settings(tol=-1e-3),
        InvalidParameter,
        "tol must be a number of at least 0",
        "got tol=-0.001",
        "tol=0.001",
    ),
    "tol none": (lambda: settings(tol=None), InvalidParameter, "tol must be a number", "got tol=None", "tol=0.001"),
    "max_time -1": (
        lambda: settings(max_time=-1),
        InvalidParameter,
        "max_time must be a number of at least 0",
        "got max_time=-1",
        "max_time=",
    ),
    "gap_every 0": (
        lambda: settings(gap_every=0),
        InvalidParameter,
        "gap_every must be a whole number of at least 1",
        "gap_every=0",
        "gap_every=1",
    ),
    "gap_every 1.5": (
        lambda: settings(gap_every=1.5),
        InvalidParameter,
        "gap_every must be a whole number",
        "gap_every=1.5",
        "gap_every=1",
    ),
    "seed none": (
        lambda: settings(seed=None),
        InvalidParameter,
        "seed must be a whole number",
        "got seed=None",
        "seed=0",
    ),
    "seed 1.5": (lambda: settings(seed=1.5), InvalidParameter, "seed must be a whole number", "got seed=1.5", "seed=0"),
    "averaging str": (
        lambda: settings(averaging="no"),
        InvalidParameter,
        "averaging must be a bool",
        "got averaging='no'",
        "averaging=True",
    ),
    "momentum str": (
        lambda: settings(momentum="no"),
        InvalidParameter,
        "momentum must be a bool",
        "got momentum='no'",
        "momentum=False",
    ),
    "block dict": (
        lambda: settings(block={"tol": 1}),
        InvalidParameter,
        "block must be a BlockSolver",
        "got block={'tol': 1}",
        "BlockSolver(",
    ),
    # predictions
    "predict other inputs": (
        lambda: machine().predict(X[:, :2]),
        InvalidData,
        "X must have the 3 inputs",
        "got shape (24, 2)",
        "Give the same inputs",
    ),
    "predict 1-d": (
        lambda: machine(n_features=9).predict(X[0]),
        InvalidData,
        "X must have two dimensions",
        "got shape (3,)",
        "X[:, None]",
    ),
    "predict numpy": (
        lambda: machine().predict(X.numpy()),
        InvalidData,
        "X must be a torch tensor",
        "got ndarray",
        "torch.as_tensor(X)",
    ),
    "predict float64": (
        lambda: machine().predict(X.double()),
        InvalidData,
        "X must be torch.float32, as in training",
        "got torch.float64",
        "X.to(torch.float32)",
    ),
    "predict int": (
        lambda: machine(n_features=9).predict(X.int()),
        InvalidData,
        "X must be float32 or float64",
        "got int32",
        "X.to(torch.float32)",
    ),
    "predict nan": (
        lambda: machine().predict(with_entry(X, (3, 1), NAN)),
        InvalidData,
        "X must be finite",
        "nan at row 3, column 1",
        "Remove",
    ),
    "predict memory": (
        lambda: machine().predict(X, memory="lots"),
        InvalidParameter,
        MEMORY,
        "got 'lots'",
        "with the unit B, kB",
    ),
    "predict exact": (
        lambda: machine().predict(X, memory=10),
        BudgetTooSmall,
        "one entry of the gaussian kernel matrix",
        "10 B is given",
        "Use memory=",
    ),
    "predict features": (
        lambda: machine(n_features=50).predict(X, memory=10),
        BudgetTooSmall,
        "one row of features",
        "10 B is given",
        "Use memory=",
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support")
@pytest.mark.parametrize(("call", "error", "rule", "found", "remedy"), TABLE.values(), ids=TABLE)
def test_bad_input_is_refused(call, error, rule, found, remedy):
    with pytest.raises(JokerError) as caught:
        call()
    assert type(caught.value) is error
    message = str(caught.value)
    assert rule in message
    assert found in message
    assert remedy in message
    assert "\n" not in message


@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support")
def test_the_rule_comes_before_what_was_found_and_the_remedy():
    for call, error, rule, found, remedy in TABLE.values():
        with pytest.raises(error) as caught:
            call()
        message = str(caught.value)
        if error is not UnknownName:  # there the remedy may be the list of names
            assert message.index(rule) <= message.index(found) < message.rindex(remedy), message


def smallest(message):
    """The size that an error recommends."""
    return int(re.search(r"Use memory=(\d+) ", message)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kernel", kernels.KERNELS)
def test_the_smallest_budget_for_the_kernel_itself_is_enough(kernel, dtype):
    def train(memory):
        return prepare(X.to(dtype), Y.to(dtype), kernel=kernel, bandwidth=2.0, memory=memory)

    with pytest.raises(BudgetTooSmall) as caught:
        train(1)
    enough = smallest(str(caught.value))
    with pytest.raises(BudgetTooSmall):
        train(enough - 1)
    machine, report = train(enough).run()
    _, reference = train("10MB").run()
    torch.testing.assert_close(report.alpha, reference.alpha, rtol=1e-3, atol=1e-3)
    with pytest.raises(BudgetTooSmall) as caught:
        machine.predict(X.to(dtype), memory=1)
    small = machine.predict(X.to(dtype), memory=smallest(str(caught.value)))
    torch.testing.assert_close(small, machine.predict(X.to(dtype)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("kernel", "features"),
    [(name, kind) for name in ("gaussian", "polynomial") for kind in kernels.get(name).feature_kinds],
)
def test_the_smallest_budget_for_features_is_enough(kernel, features, dtype):
    def train(memory):
        return prepare(
            X.to(dtype),
            Y.to(dtype),
            kernel=kernel,
            bandwidth=2.0,
            n_features=40,
            features=features,
            memory=memory,
        )

    with pytest.raises(BudgetTooSmall) as caught:
        train(1)
    enough = smallest(str(caught.value))
    with pytest.raises(BudgetTooSmall):
        train(enough - 1)
    machine, report = train(enough).run()
    assert report.relative_gap < 1e-3
    with pytest.raises(BudgetTooSmall) as caught:
        machine.predict(X.to(dtype), memory=1)
    small = machine.predict(X.to(dtype), memory=smallest(str(caught.value)))
    torch.testing.assert_close(small, machine.predict(X.to(dtype)))


def test_a_keyword_that_does_not_exist_fails():
    with pytest.raises(TypeError, match="unexpected keyword argument 'lamda'"):
        prepare(lamda=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs'"):
        Settings(epochs=3)


GOOD = [
    lambda: prepare(lam=np.float32(0.5), bandwidth=np.float64(2)),
    lambda: prepare(memory=np.int64(10**6)),
    lambda: prepare(n_features=np.int64(10)),
    lambda: prepare(features="auto"),
    lambda: prepare(bandwidth=None, kernel=kernels.Gaussian(2.0)),
    lambda: prepare(0 * X, bandwidth=1.0),
    lambda: prepare(0 * X, kernel="linear"),
    lambda: prepare(y=Y.double()),
    lambda: prepare(weights=torch.arange(N)),
    lambda: prepare(X[:1], Y[:1], bandwidth=1.0),
    lambda: prepare(X.clone().requires_grad_(), Y.clone().requires_grad_()),
    lambda: prepare(X.clone().requires_grad_(), n_features=10),
    lambda: prepare(y=Y[:, None].expand(-1, 3), loss=losses.Quantile(LEVELS.double())),
    lambda: prepare(loss=losses.Quantile(LEVELS), lam=[1.0, 1.0, 1.0]),
    lambda: prepare(loss=losses.InfimalConvolution([losses.Squared(), losses.Tube(0.1)])),
    lambda: settings(
        block_size=np.int64(7), max_epochs=np.float32(2.5), tol=0, gap_every=np.int64(2), seed=np.int64(3)
    ),
    lambda: settings(max_epochs=0),
    lambda: settings(max_time=0),
]


@pytest.mark.parametrize("call", GOOD)
def test_unusual_input_that_makes_sense_is_taken(call):
    machine, report = call().run()
    assert report.alpha.dtype == torch.float32
    assert report.alpha.isfinite().all()
    assert not report.alpha.requires_grad
    assert machine.predict(X).isfinite().all()
    assert machine.predict(X.clone().requires_grad_()).requires_grad is False


def test_no_rows_have_no_predictions():
    assert machine().predict(X[:0]).shape == (0, 1)
    assert machine(n_features=9).predict(X[:0]).shape == (0, 1)


@pytest.mark.parametrize("loss", losses.NAMES)
def test_the_input_is_not_changed(loss):
    y = LABELS if losses.get(loss).frame.task == "classification" else Y
    y = Y.exp() if isinstance(losses.get(loss), losses.LogLinkLoss) else y
    copies = X.clone(), y.clone(), ONES.clone()
    prepare(copies[0], copies[1], loss=loss, weights=copies[2], settings=Settings(block_size=10)).run()
    assert torch.equal(copies[0], X)
    assert torch.equal(copies[1], y)
    assert torch.equal(copies[2], ONES)


def test_every_error_class_is_met_here():
    of_files = {
        errors.StateMismatch,
        errors.InvalidFile,
        errors.MissingFile,
        errors.InexactFeatures,
        errors.NotSynced,
    }  # met there
    of_estimators = {errors.EdgeOfPath, errors.GuessedTask, errors.UnknownSetting, errors.InvalidCell}
    of_groups = {errors.ProcessesDiffer, errors.ProcessLost}
    of_plots, of_cards = {errors.MissingPackage, errors.OutOfTime}, {errors.CaptureFailed, errors.SlowerWithoutTriton}
    assert {error for _, error, *_ in TABLE.values()} == {
        error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, JokerError)
    } - {JokerError, *of_files, *of_estimators, *of_plots, *of_cards, *of_groups}
