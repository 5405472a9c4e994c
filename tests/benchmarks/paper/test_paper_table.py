"""The tables of the paper as values: complete, consistent, and scaled correctly."""

import math
from dataclasses import replace

import pytest

from benchmarks.paper import MODELS, SETS, PaperBlocks, plan, published, settings_of
from benchmarks.paper.datasets import SETS as FILES
from benchmarks.paper.protocol import bounded
from benchmarks.paper.tables import FALLING, model_named
from joker import losses
from joker.errors import InvalidParameter, UnknownName

PAIRS = [
    (data, model)
    for data, found in SETS.items()
    for model in MODELS
    if model != ("klr" if found.task == "regression" else "svr")
]


@pytest.mark.parametrize(("data", "model"), PAIRS)
def test_every_model_has_settings_and_a_row_for_the_metrics_of_its_set(data: str, model: str) -> None:
    found = SETS[data]
    choice, row = settings_of(model, found), published(model, found)
    assert tuple(row.scores) == found.metrics
    assert losses.get(choice.loss, **choice.parameters).frame.task in ("regression", found.task)
    assert math.log2(choice.lam).is_integer()
    assert -7 <= math.log2(choice.lam) <= 7  # the paper's grid
    assert all(0 < mean < 1 and deviation < mean / 50 for mean, deviation in row.scores.values())
    assert 20 * 60 <= row.seconds <= 4 * 3600
    assert (choice.n_features is None) == (data == "msd")


@pytest.mark.parametrize("data", SETS)
def test_the_data_sets_can_be_read(data: str) -> None:
    known, found = FILES[data], SETS[data]
    assert (known.task, known.rows or found.rows) == (found.task, found.rows)
    share = known.share or 1 - (known.held_out or 0) / found.rows
    assert share == pytest.approx(found.share)
    assert (found.metrics[0] in FALLING) == (found.task == "regression")


def test_the_svm_of_a_regression_set_is_svr_of_its_own_size() -> None:
    assert settings_of("svm", SETS["hepc"]) == settings_of("svr", SETS["hepc"])
    assert settings_of("svr", SETS["hepc"]).n_features == 10_000
    assert settings_of("svm", SETS["higgs"]).loss == "squared_hinge"  # L2-SVC: alpha y >= 0 and no other wall


@pytest.mark.parametrize(("data", "model"), PAIRS)
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.013])
def test_steps_and_features_are_those_of_the_table_times_the_scale(data: str, model: str, scale: float) -> None:
    found = SETS[data]
    made, choice = plan(found, model, scale=scale), settings_of(model, found)
    assert made.steps == max(1, round(choice.steps * scale * found.part))
    assert made.n_features == (choice.n_features and round(choice.n_features * scale))
    rows = round(found.rows * found.share * scale)
    if rows > choice.block_size:
        settings = made.settings(rows)
        assert settings.max_epochs * -(-rows // choice.block_size) == pytest.approx(made.steps)
        assert settings.block_size == choice.block_size


def test_a_smaller_data_set_has_the_same_number_of_epochs() -> None:
    epochs = [
        made.settings(rows).max_epochs
        for made, rows in ((plan(SETS["higgs"], "svm"), 8_800_000), (plan(SETS["higgs33k"], "svm"), 26_769))
    ]
    assert epochs[0] == pytest.approx(epochs[1], rel=0.02)


def test_a_scaled_run_has_the_same_number_of_halvings() -> None:
    whole, small = (plan(SETS["hepc"], "krr", halving=True, scale=scale) for scale in (1.0, 0.02))
    assert whole.steps / whole.halve_every == small.steps / small.halve_every == 25
    assert plan(SETS["hepc"], "krr").halve_every == 0


def test_the_two_protocols() -> None:
    theirs, ours = (plan(SETS["hepc"], "krr", name).settings(100_000) for name in ("paper", "joker"))
    assert (theirs.method, theirs.averaging, theirs.momentum, theirs.tol) == (PaperBlocks, False, False, 0)
    assert (ours.method, ours.averaging, ours.momentum) == ("auto", True, True)
    halved = plan(SETS["hepc"], "krr", halving=True)
    assert halved.settings(100_000) == replace(theirs, method=bounded(1.0, 1_000))
    assert float(ours.max_epochs).is_integer()
    assert theirs.max_epochs - 1 < ours.max_epochs <= theirs.max_epochs


@pytest.mark.parametrize(
    ("data", "model", "options", "error", "said"),
    [
        ("hepc", "klr", {}, InvalidParameter, "Use one of krr, huber, svr"),
        ("higgs", "svr", {}, InvalidParameter, "Use one of krr, huber, svm, klr"),
        ("higgs", "bogus", {}, UnknownName, "model"),
        ("higgs", "svm", {"protocol": "mine"}, UnknownName, "protocol"),
        ("higgs", "svm", {"scale": 0}, InvalidParameter, "scale must be a number above 0"),
        ("higgs", "svm", {"scale": math.nan}, InvalidParameter, "scale must be a number above 0"),
        ("higgs", "svm", {"steps": 0}, InvalidParameter, "steps must be a whole number"),
        ("higgs", "svm", {"protocol": "joker", "halving": True}, InvalidParameter, "halving must be used with"),
    ],
)
def test_combinations_that_are_not_in_the_paper_are_refused(data, model, options, error, said) -> None:
    with pytest.raises(error, match=said):
        plan(SETS[data], model, **options)


def test_a_scale_that_leaves_one_block_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"Use a scale of at least 0\.00"):
        plan(SETS["msd"], "krr", scale=0.001).settings(463)
    assert model_named("svm", SETS["msd"]) == "svr"
