"""A path of λ: every model equals a separate fit, and held-out rows choose the best."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import train_test_split

import joker
from joker.errors import EdgeOfPath, InvalidData

LAMS = 2.0 ** np.arange(-7, 8, 2)


@pytest.fixture
def data(rng: np.random.Generator):
    X = rng.normal(size=(300, 2))
    return train_test_split(X, np.sin(2 * X[:, 0]) + 3 + 0.3 * rng.normal(size=300), random_state=0)


@pytest.mark.parametrize("n_features", [None, 100])
@pytest.mark.parametrize("name", ["KernelRidge", "KernelHuber", "KernelSVR"])
def test_each_model_equals_a_separate_fit(data, name: str, n_features: int | None) -> None:
    X, Xv, y, yv = data
    model = getattr(joker, name)(lam=LAMS, tol=1e-12, n_features=n_features, random_state=0)
    model.fit(X, y, eval_set=(Xv, yv))
    for i in (0, 3, 7):
        alone = clone(model).set_params(lam=LAMS[i]).fit(X, y)
        assert_allclose(model.path_.models[i].predict(Xv), alone.predict(Xv), atol=1e-4)


def test_the_best_on_the_held_out_rows_is_kept(data) -> None:
    """The scores equal the losses of the predictions, and the best λ is inside the path."""
    X, Xv, y, yv = data
    model = joker.KernelRidge(lam=LAMS).fit(X, y, eval_set=(Xv, yv))
    by_hand = [-np.mean(((yv - f) / model.target_scale_) ** 2) / 2 for f in model.path_.predict(Xv)]
    assert_allclose(model.path_.scores, by_hand)
    assert model.lam_ == LAMS[np.argmax(by_hand)] == model.path_.lam[model.path_.best]
    assert min(LAMS) < model.lam_ < max(LAMS)
    best = model.path_.models[model.path_.best]
    assert_allclose(model.predict(Xv), best.predict(Xv))
    assert_allclose(model.dual_coef_, best.dual_coef_)
    assert [m.lam_ for m in model.path_.models] == LAMS.tolist()
    assert model.gap_ <= 1e-3


def test_of_equal_scores_the_simplest_model_wins() -> None:
    X = np.array([[-1.0], [1.0]] * 20)
    model = joker.KernelSVC(lam=[1.0, 4.0, 2.0], kernel="linear").fit(X, X[:, 0] > 0, eval_set=([[0.0]], [True]))
    assert np.ptp(model.path_.scores) < 1e-12
    assert model.lam_ == 4.0


def test_rows_are_held_out_and_not_trained_on(data) -> None:
    """The held-out rows depend on the seed; ``dual_coef_`` has the other rows."""
    X, Xv, y, _ = data
    model = joker.KernelRidge(lam=LAMS, validation_fraction=0.2, random_state=3).fit(X, y)
    assert len(model.dual_coef_) == 0.8 * len(X)
    again = joker.KernelRidge(lam=LAMS, validation_fraction=0.2, random_state=3).fit(X, y)
    assert_allclose(again.predict(Xv), model.predict(Xv))


def test_a_rare_class_is_in_both_parts(rng: np.random.Generator) -> None:
    """Without stratification, a tenth of 200 rows has none of a class of 10 in about one of three draws."""
    X = rng.normal(size=(200, 2))
    y = np.arange(200) < 10
    for seed in range(5):
        model = joker.KernelSVC(lam=[0.1, 1.0], kernel="linear", n_features=None, random_state=seed).fit(X, y)
        assert len(model.dual_coef_) == 180
        assert np.sum(model.dual_coef_ > 0) == 9


def test_weights_count_in_the_choice(data) -> None:
    """Held-out rows of weight 0 have no effect on the choice."""
    X, _, y, _ = data
    spoilt, w = y.copy(), np.ones(len(y))
    spoilt[::4], w[::4] = 1e3, 0
    weighted = joker.KernelRidge(lam=LAMS, random_state=0).fit(X, spoilt, sample_weight=w)
    assert np.all(-weighted.path_.scores < 1)


def test_held_out_rows_without_weight_choose_nothing(data) -> None:
    X, _, y, _ = data
    w = (np.arange(len(y)) == 0).astype(float)
    with pytest.raises(InvalidData, match="held out to choose lam"):
        joker.KernelRidge(lam=LAMS).fit(X, y, sample_weight=w)


def test_paths_of_classes_and_quantiles(data) -> None:
    X, Xv, y, yv = data
    cut = [2.5, 3.5]
    model = joker.KernelLogistic(lam=LAMS, tol=1e-10).fit(X, np.digitize(y, cut), eval_set=(Xv, np.digitize(yv, cut)))
    assert model.decision_function(Xv).shape == (len(Xv), 3)
    alone = joker.KernelLogistic(lam=model.lam_, tol=1e-10).fit(X, np.digitize(y, cut))
    assert_allclose(model.predict_proba(Xv), alone.predict_proba(Xv), atol=1e-4)
    levels = joker.KernelQuantile(quantile=[0.1, 0.9], lam=LAMS, tol=1e-10).fit(X, y, eval_set=(Xv, yv))
    alone = joker.KernelQuantile(quantile=[0.1, 0.9], lam=levels.lam_, tol=1e-10).fit(X, y)
    assert_allclose(levels.predict(Xv), alone.predict(Xv), atol=1e-3)


def test_outputs_share_one_penalty(data) -> None:
    X, Xv, y, yv = data
    ridge = joker.KernelRidge(lam=LAMS, tol=1e-12)
    model = clone(ridge).fit(X, np.stack([y, 2 * y], 1), eval_set=(Xv, np.stack([yv, 2 * yv], 1)))
    one = clone(ridge).fit(X, y, eval_set=(Xv, yv))
    assert model.lam_ == one.lam_
    assert_allclose(model.predict(Xv), np.stack([one.predict(Xv), 2 * one.predict(Xv)], 1), rtol=1e-4)


def test_one_penalty_with_an_eval_set_has_its_score(data) -> None:
    X, Xv, y, yv = data
    model = joker.KernelRidge(lam=0.5).fit(X, y, eval_set=(Xv, yv))
    assert_allclose(model.path_.scores, [-np.mean(((yv - model.predict(Xv)) / model.target_scale_) ** 2) / 2])
    assert not hasattr(model.fit(X, y), "path_")


def test_a_pickled_path_stores_its_weights_once(data) -> None:
    X, Xv, y, yv = data
    model = joker.KernelRidge(lam=LAMS).fit(X, y, eval_set=(Xv, yv))
    stored = pickle.dumps(model)
    for one, other in zip(pickle.loads(stored).path_.predict(Xv), model.path_.predict(Xv), strict=True):
        assert_allclose(one, other)
    assert len(stored) < 3 * 8 * len(X) * (len(LAMS) + 2)


@pytest.mark.parametrize(
    ("lams", "said"),
    [
        ([100.0, 1e3, 1e4], "lam_ is the smallest value of lam, 100: .* for example by 10"),
        ([1e-8, 1e-7, 1e-6], "lam_ is the largest value of lam, 1e-06: .* for example by 1e-05"),
    ],
)
def test_the_edge_of_a_path_is_said(data, lams: list[float], said: str) -> None:
    X, Xv, y, yv = data
    with pytest.warns(EdgeOfPath, match=said):
        joker.KernelRidge(lam=lams).fit(X, y, eval_set=(Xv, yv))


@pytest.mark.parametrize("lams", [LAMS, [100.0, 1e3], [1.0]])
def test_nothing_is_said_inside_or_of_short_paths(data, lams: Any) -> None:
    X, Xv, y, yv = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = joker.KernelRidge(lam=lams).fit(X, y, eval_set=(Xv, yv))
        joker.KernelRidge(lam=[100.0, 1e3, 1e4]).fit_sample((X, y, None))  # without scores
    assert model.lam_ in lams


@pytest.mark.parametrize(("n", "classes"), [(20, 3), (6, 3), (30, 14), (3, 2)])
def test_few_rows_of_each_class(n: int, classes: int) -> None:
    """The rows held out may be fewer than the classes, and a class may have one row, which stays for training."""
    y = np.arange(n) % classes
    X = np.eye(classes)[y] + 0.1 * np.random.default_rng(0).normal(size=(n, classes))
    model = joker.KernelSVC(lam=[0.1, 1.0]).fit(X, y)
    assert model.score(X, y) == 1


def test_one_row_of_each_class() -> None:
    with pytest.raises(InvalidData, match="got one row for each of 4 classes"):
        joker.KernelSVC(lam=[0.1, 1.0]).fit(np.eye(4), np.arange(4))
    assert joker.KernelSVC(lam=0.1).fit(np.eye(4), np.arange(4)).score(np.eye(4), np.arange(4)) == 1


def test_the_last_of_many_short_epochs_is_scored_and_few_others() -> None:
    """A step of conjugate gradients takes less time than the prediction of the held-out rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=700)
    settings = {"n_features": None, "block_size": 64, "lam": [1e-2, 1e-4], "tol": 1e-9, "random_state": 0}
    model = joker.KernelRidge(**settings).fit(X[:500], y[:500], eval_set=(X[500:], y[500:]))
    scored = [round(entry["epoch"]) for entry in model.history_ if "validation_score" in entry]
    assert scored[:5] == [1, 2, 3, 4, 6]
    assert scored[-1] == model.n_iter_ > 8
    assert np.isfinite(model.path_.scores).all()
    stopped = joker.KernelRidge(**settings, early_stopping=True).fit(X[:500], y[:500], eval_set=(X[500:], y[500:]))
    assert all("validation_score" in entry for entry in stopped.history_)
