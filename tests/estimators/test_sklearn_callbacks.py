"""scikit-learn's own callbacks, and fits with an older scikit-learn that has none."""

import importlib.util
import io
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import joker
from joker.callbacks import Callback
from joker.estimators import estimator

X = np.random.default_rng(0).normal(size=(200, 2))
Y = np.sin(X[:, 0])
LABELS = np.where(Y > 0, "up", "down")
SETTINGS = {"block_size": 50, "max_epochs": 3, "tol": 0.0, "random_state": 0}


def test_a_fit_without_callbacks_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module as it is imported with a scikit-learn before 1.9."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.spec_from_file_location("old_relay", estimator.__file__)
    old = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "old_relay", old)  # where its dataclasses look up their annotations
    spec.loader.exec_module(old)
    assert not hasattr(old.CallbackSupportMixin, "set_callbacks")
    assert old.with_callbacks(print) is print
    monkeypatch.setattr("joker.estimators.estimator.SklearnCallbackRelay", old.SklearnCallbackRelay)
    model = joker.KernelRidge(**SETTINGS).fit(X, Y)
    assert model.n_iter_ == 3


sklearn_callback = pytest.importorskip("sklearn.callback", reason="needs scikit-learn 1.9")


class Diary:
    """A callback of scikit-learn that records its calls."""

    def __init__(self, stop: int = 99, fails: bool = False) -> None:
        self.stop, self.fails = stop, fails
        self.pages: list = []
        self.models: list = []

    def setup(self, estimator, context) -> None:
        self.pages.append(("setup", context.task_name, context.max_subtasks))

    def on_fit_task_begin(self, estimator, context) -> None:
        self.pages.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator) -> bool:
        self.pages.append(("end", context.task_name, context.task_id))
        self.models.append(fitted_estimator)
        self.data = X, y, metadata
        if self.fails:
            raise RuntimeError
        return context.task_id + 1 == self.stop

    def teardown(self, estimator, context) -> None:
        self.pages.append(("teardown", context.task_name, context.max_subtasks))


def test_the_tasks_of_a_fit() -> None:
    diary = Diary()
    w = np.arange(200.0)
    model = joker.KernelRidge(**SETTINGS).set_callbacks(diary).fit(X, Y, w)
    epochs = [(event, "epoch", k) for k in range(3) for event in ("begin", "end")]
    whole = [("setup", "fit", 3), ("begin", "fit", 0), *epochs, ("end", "fit", 0), ("teardown", "fit", 3)]
    assert diary.pages == whole
    assert_array_equal(diary.data[1], Y)
    assert_array_equal(diary.data[2]["sample_weight"], w)
    for k, fitted in enumerate(diary.models[:3], start=1):
        shorter = joker.KernelRidge(**{**SETTINGS, "max_epochs": k}).fit(X, Y, w)
        assert_array_equal(fitted.predict(X), shorter.predict(X))
        assert fitted.n_iter_ == k
    assert_array_equal(diary.models[3].predict(X), model.predict(X))
    assert set(vars(model)) - set(vars(joker.KernelRidge(**SETTINGS).fit(X, Y, w))) == {"_skl_callbacks"}


def test_a_check_within_an_epoch_ends_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap may be evaluated within an epoch, and the fit may then go on: an epoch is still one task."""
    monkeypatch.setattr("joker.solvers.loop.Descent._reached", lambda descent: True)
    diary = Diary()
    svc = joker.KernelSVC(**{**SETTINGS, "max_epochs": 2, "tol": 0, "block_size": 8}, method="greedy_blocks", lam=1e-3)
    model = svc.set_callbacks(diary).fit(X, LABELS)
    assert len(model.history_) > 2
    epochs = [(event, "epoch", k) for k in range(2) for event in ("begin", "end")]
    assert diary.pages[2:-2] == epochs


def test_a_callback_stops_a_fit() -> None:
    model = joker.KernelRidge(**SETTINGS).set_callbacks(Diary(stop=2)).fit(X, Y)
    assert (model.n_iter_, model.stop_reason_) == (2, "The solve was asked to stop.")


def test_an_error_tears_down() -> None:
    diary = Diary(fails=True)
    model = joker.KernelRidge(**SETTINGS).set_callbacks(diary)
    with pytest.raises(RuntimeError):
        model.fit(X, Y)
    assert diary.pages[-1] == ("teardown", "fit", 3)
    assert ("end", "fit", 0) not in diary.pages
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, Y[:-1])  # before any callback is set up


def test_classes_weights_and_paths() -> None:
    diary = Diary()
    svc = joker.KernelSVC(**SETTINGS, lam=[0.1, 1.0], class_weight="balanced").set_callbacks(diary)
    model = svc.fit(X, LABELS, eval_set=(X, LABELS))
    assert set(diary.data[1]) == {"up", "down"}
    assert diary.data[2] is None  # the weights of classes are not weights that the user gave
    assert diary.models[2].score(X, LABELS) == model.score(X, LABELS)
    assert "_callback_fit_ctx" not in pickle.loads(pickle.dumps(model)).path_.models[0].__dict__


def test_the_number_of_epochs_may_be_unknown() -> None:
    for settings in ({"block_size": "auto", "tol": 1e-3}, {"max_epochs": float("inf"), "tol": 0.5}):
        diary = Diary()
        joker.KernelRidge(**{**SETTINGS, **settings}).set_callbacks(diary).fit(X, Y)
        assert diary.pages[0] == ("setup", "fit", None)


def test_a_warm_start_reports_only_its_own_epochs() -> None:
    diary = Diary()
    model = joker.KernelRidge(**SETTINGS, warm_start=True).fit(X, Y)
    model.set_params(max_epochs=1.5).set_callbacks(diary).fit(X, Y)
    assert diary.pages[0] == ("setup", "fit", 2)
    assert diary.pages.count(("begin", "epoch", 1)) == 1
    model.set_params(max_epochs=0).fit(X, Y)


def test_a_score_of_every_epoch() -> None:
    monitor = sklearn_callback.ScoringMonitor(scoring="r2")
    model = joker.KernelRidge(**SETTINGS).set_callbacks(monitor).fit(X, Y)
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(scores) == 3
    assert_allclose(scores[-1], model.score(X, Y))


def test_a_progress_bar_and_a_callback_of_joker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    seen = []

    class Sees(Callback):
        def epoch(self, run) -> None:
            seen.append(run.epoch)

    ridge = joker.KernelRidge(**SETTINGS, callbacks=[Sees()]).set_callbacks(sklearn_callback.ProgressBar())
    clone(ridge).fit(X, Y)
    assert seen == [1, 2, 3]
    assert "KernelRidge - fit" in sys.stdout.getvalue()


def test_inside_a_search_and_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    pipeline = make_pipeline(StandardScaler(), joker.KernelRidge(**SETTINGS))
    search = GridSearchCV(pipeline, {"kernelridge__lam": [0.1, 1.0]}, cv=2)
    search.set_callbacks(sklearn_callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    assert "KernelRidge - fit" in sys.stdout.getvalue()
