"""Early stopping: the model and all its attributes are those of the best epoch."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import accuracy_score, get_scorer

import joker
from joker.callbacks import Callback, Checkpoint, EarlyStopping, JsonLog, TimeLimit
from joker.errors import StateMismatch


@pytest.fixture
def noise(rng: np.random.Generator):
    """Rows whose targets are mostly noise: with a small λ the score falls with every epoch."""
    X, Xv = rng.normal(size=(2, 150, 2))
    return X, np.sin(X[:, 0]) + rng.normal(size=150), Xv, np.sin(Xv[:, 0]) + rng.normal(size=150)


@pytest.fixture
def labels(noise):
    X, y, Xv, yv = noise
    return X, np.where(y > 0, "up", "down"), Xv, np.where(yv > 0, "up", "down")


def ridge(**settings) -> joker.KernelRidge:
    given = {"lam": 1e-3, "block_size": 50, "max_epochs": 20, "tol": 0.0, "random_state": 0, "bandwidth": 0.5}
    return joker.KernelRidge(**{**given, **settings})


@pytest.mark.parametrize("n_features", [None, 80])
def test_the_model_is_that_of_the_best_epoch(noise, n_features: int | None) -> None:
    X, y, Xv, yv = noise
    model = ridge(early_stopping=True, n_features=n_features).fit(X, y, eval_set=(Xv, yv))
    scores = [entry["validation_score"] for entry in model.history_]
    assert len(scores) < 20
    assert model.stop_reason_ == "The validation score has not risen for 3 epochs."
    assert model.n_iter_ == np.argmax(scores) + 1 == len(scores) - 3
    alone = ridge(max_epochs=model.n_iter_, n_features=n_features).fit(X, y)
    # The weights of the last epoch are computed again without rounding errors; those of an earlier one are not.
    assert_allclose(model.predict(Xv), alone.predict(Xv), atol=1e-3)
    assert model.gap_ == model.history_[model.n_iter_ - 1]["gap"]
    assert alone.gap_ <= 1.01 * model.gap_ < 1e-3 + 2 * alone.gap_  # both count rounding errors, one by a bound
    assert_allclose(max(scores), -np.mean(((yv - alone.predict(Xv)) / alone.target_scale_) ** 2) / 2, rtol=1e-4)
    assert "validation_score" not in alone.history_[0]
    assert not hasattr(alone, "path_")


def test_rows_are_held_out_without_an_eval_set(labels) -> None:
    X, y, _, _ = labels
    model = joker.KernelLogistic(early_stopping=True, validation_fraction=0.2, random_state=0).fit(X, y)
    assert len(model.dual_coef_) == 120
    assert len(model.history_[0]) == 8
    assert_allclose(np.mean(model.dual_coef_ > 0), np.mean(y == "up"), atol=0.01)  # stratified


@pytest.mark.parametrize("n_features", [None, 80])
def test_a_scorer_decides(labels, tmp_path, n_features: int | None) -> None:
    X, y, Xv, yv = labels
    svc = joker.KernelSVC(
        lam=1e-2, bandwidth=0.5, block_size=50, max_epochs=8, tol=0.0, random_state=0, n_features=n_features
    )
    by_name = clone(svc).set_params(early_stopping="accuracy").fit(X, y, eval_set=(Xv, yv))
    scores = [entry["validation_score"] for entry in by_name.history_]
    assert max(scores) == by_name.score(Xv, yv) == accuracy_score(yv, by_name.predict(Xv))
    assert by_name.n_iter_ == np.argmax(scores) + 1
    called = []

    def by_hand(model, X, y) -> float:
        called.append(model.predict(X[:3]))  # other rows than the held-out ones
        assert model.classes_.tolist() == ["down", "up"]
        return np.mean(model.predict(X) == y)

    of_function = clone(svc).set_params(early_stopping=by_hand).fit(X, y, eval_set=(Xv, yv))
    assert [entry["validation_score"] for entry in of_function.history_] == scores
    assert_array_equal(called[of_function.n_iter_ - 1], of_function.predict(Xv[:3]))
    of_function.save(tmp_path / "a.joker")
    loaded = joker.load(tmp_path / "a.joker")
    assert loaded.early_stopping is True  # a file holds no code
    assert loaded.history_ == of_function.history_
    assert_array_equal(loaded.decision_function(Xv), of_function.decision_function(Xv))


@pytest.mark.parametrize("name", ["neg_log_loss", "roc_auc"])
def test_scorers_that_need_more_than_classes(labels, name: str) -> None:
    X, y, Xv, yv = labels
    model = joker.KernelLogistic(early_stopping=name, random_state=0).fit(X, y, eval_set=(Xv, yv))
    assert_allclose(model.history_[model.n_iter_ - 1]["validation_score"], get_scorer(name)(model, Xv, yv))


def test_many_classes_outputs_and_quantiles(noise) -> None:
    X, y, Xv, yv = noise
    three = np.digitize(y, [-0.5, 0.5])
    model = joker.KernelSVC(early_stopping="accuracy", random_state=0).fit(X, three, eval_set=(X, three))
    assert_allclose(model.path_.scores, [model.score(X, three)])
    both = ridge(early_stopping="r2", max_epochs=5).fit(X, np.stack([y, -y], 1), eval_set=(Xv, np.stack([yv, -yv], 1)))
    assert_allclose(both.path_.scores, [both.score(Xv, np.stack([yv, -yv], 1))])

    def score(model, X, y) -> float:
        return float(model.score(X, y))

    levels = joker.KernelQuantile(quantile=[0.1, 0.9], early_stopping=score).fit(X, y, eval_set=(Xv, yv))
    assert_allclose(levels.path_.scores, [levels.score(Xv, yv)])


@pytest.mark.parametrize("scorer", [True, "r2"])
def test_a_path_returns_the_best_epoch_and_penalty(noise, scorer) -> None:
    X, y, Xv, yv = noise
    lams = [1e-3, 1e-2, 3.0]
    model = ridge(lam=lams, early_stopping=scorer, n_features=80).fit(X, y, eval_set=(Xv, yv))
    histories = np.array([[e["validation_score"] for e in m.history_] for m in model.path_.models])  # λ, epoch
    best = np.unravel_index(histories.argmax(), histories.shape)
    assert (model.lam_, model.n_iter_) == (lams[best[0]], best[1] + 1)
    assert [e["validation_score"] for e in model.history_] == histories[best[0]].tolist()
    assert_allclose(model.path_.scores, histories[:, best[1]])
    if scorer == "r2":
        assert_allclose(histories.max(), model.score(Xv, yv))


def test_one_prediction_of_the_held_rows_an_epoch(noise, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, Xv, yv = noise
    seen = []
    evaluate = joker.KernelRidge._evaluate
    monkeypatch.setattr(joker.KernelRidge, "_evaluate", lambda *given: seen.append(0) or evaluate(*given))
    model = ridge(lam=[1e-3, 1e-2, 1e-1], early_stopping="r2", max_epochs=4).fit(X, y, eval_set=(Xv, yv))
    assert len(seen) == len(model.history_)


def test_a_callback_with_another_patience(noise) -> None:
    """A callback that stops early replaces the default one, and rows are held out for it."""
    X, y, Xv, yv = noise
    model = ridge(callbacks=[EarlyStopping(patience=1)]).fit(X, y)
    assert model.stop_reason_ == "The validation score has not risen for an epoch."
    assert len(model.dual_coef_) == 135
    patient = ridge(callbacks=[EarlyStopping(patience=5)], early_stopping="r2").fit(X, y, eval_set=(Xv, yv))
    assert len(patient.history_) == patient.n_iter_ + 5
    assert_allclose(patient.history_[patient.n_iter_ - 1]["validation_score"], patient.score(Xv, yv))


def test_held_out_rows_without_weight_do_not_count(noise) -> None:
    X, y, _, _ = noise
    spoilt, w = y.copy(), np.ones(len(y))
    spoilt[::4], w[::4] = 1e6, 0
    model = ridge(early_stopping="r2", lam=1.0).fit(X, spoilt, sample_weight=w)
    assert model.history_[0]["validation_score"] > -1


def test_names_of_inputs_cause_no_warning(labels) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, _, _ = labels
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = joker.KernelSVC(early_stopping="accuracy").fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_callbacks_of_an_estimator(noise, tmp_path) -> None:
    """A checkpoint, a log, a time limit and a user's callback, which gets the model of each epoch."""
    X, y, Xv, yv = noise
    models = []

    class Collects(Callback):
        def epoch(self, run) -> None:
            models.append(run.model())

    callbacks = [Checkpoint(tmp_path / "a"), JsonLog(tmp_path / "log"), TimeLimit(600), Collects()]
    model = ridge(lam=[1e-3, 1e-1], max_epochs=3, callbacks=callbacks).fit(X, y, eval_set=(Xv, yv))
    assert [m.n_iter_ for m in models] == [1, 2, 3]
    assert_array_equal(models[-1].predict(Xv), model.predict(Xv))
    for k in (0, 1):
        shorter = ridge(lam=[1e-3, 1e-1], max_epochs=k + 1).fit(X, y, eval_set=(Xv, yv))
        assert models[k].lam_ == shorter.lam_
        assert_array_equal(models[k].predict(Xv), shorter.predict(Xv))
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "epoch", "epoch", "epoch", "end"]
    assert lines[-2]["validation_score"] == max(model.path_.scores)
    assert lines[0]["title"] == "KernelRidge"
    longer = ridge(lam=[1e-3, 1e-1], max_epochs=5, callbacks=callbacks).fit(X, y, eval_set=(Xv, yv))
    straight = ridge(lam=[1e-3, 1e-1], max_epochs=5).fit(X, y, eval_set=(Xv, yv))
    assert_array_equal(longer.predict(Xv), straight.predict(Xv))
    assert len(models) == 3 + 3  # the third epoch is reported again, and the first two are not run again
    with pytest.raises(StateMismatch, match="targets differ"):
        ridge(lam=[1e-3, 1e-1], callbacks=callbacks).fit(X, -y, eval_set=(Xv, yv))


def test_max_time_ends_a_fit(noise) -> None:
    X, y, _, _ = noise
    model = ridge(max_epochs=1e9, max_time=1e-6).fit(X, y)  # over after the first step
    assert model.stop_reason_ == "The time allowed was used up."
    assert 1e-6 <= model.history_[-1]["seconds"] < 20


def test_the_history_has_the_peak_memory(noise) -> None:
    X, y, _, _ = noise
    peaks = [entry["peak_bytes"] for entry in ridge(max_epochs=3).fit(X, y).history_]
    assert peaks == sorted(peaks)
    assert peaks[0] > 50e6
