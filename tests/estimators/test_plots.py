"""Plots of the history and of the path of λ, in panels that another estimator can be drawn into."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import joker
from joker.errors import InvalidParameter, MissingPackage, UnknownName

X = np.random.default_rng(0).normal(size=(80, 2))
Y = np.sin(X[:, 0])
CONVERGENCE = {"epoch": [1, 2, 3], "seconds": [0.1, 0.4, 0.9], "gap": [1.0, 0.1, 0.01]}
BOUNDS = {"primal": [5.0, 4.5, 4.2], "dual": [1.0, 3.9, 4.1]}


@pytest.fixture(autouse=True)
def _headless():
    mpl.use("agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def blocks():
    return joker.KernelRidge(block_size=20, max_epochs=4, tol=0.0, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def path():
    return joker.KernelRidge(lam=[4.0, 0.25, 1.0], random_state=0).fit(X, Y)


@pytest.mark.parametrize("against", ["epoch", "seconds"])
def test_the_gap_of_every_epoch_is_drawn(blocks, against: str) -> None:
    display = joker.ConvergenceDisplay.from_estimator(blocks, against=against)
    assert_array_equal(display.line_.get_xdata(), [record[against] for record in blocks.history_])
    assert_array_equal(display.line_.get_ydata(), [record["gap"] for record in blocks.history_])
    assert display.ax_.get_yscale() == "log"
    assert display.axes_[-1].get_xlabel() == {"epoch": "epochs", "seconds": "seconds"}[against]
    assert display.ax_.get_legend().get_texts()[0].get_text() == "KernelRidge"
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()


def test_the_bounds_have_a_panel_and_the_colour_of_the_gap(blocks) -> None:
    display = joker.ConvergenceDisplay.from_estimator(blocks, bounds=True, line_kw={"linewidth": 3})
    gap, primal, dual = display.lines_
    assert_array_equal(primal.get_ydata(), [record["primal"] for record in blocks.history_])
    assert_array_equal(dual.get_ydata(), [record["dual"] for record in blocks.history_])
    assert primal.axes is dual.axes is display.axes_[1] is not gap.axes
    assert {line.get_color() for line in display.lines_} == {gap.get_color()}
    assert {line.get_linewidth() for line in display.lines_} == {3}


def test_held_out_scores_have_a_panel() -> None:
    model = joker.KernelRidge(block_size=20, tol=0.0).fit(X, Y, eval_set=(X, Y))
    display = joker.ConvergenceDisplay.from_estimator(model)
    gap, score = display.axes_
    scored = [record for record in model.history_ if "validation_score" in record]
    assert 2 < len(scored) < len(model.history_)  # not each of many short epochs
    assert_array_equal(display.lines_[1].get_ydata(), [record["validation_score"] for record in scored])
    assert_array_equal(display.lines_[1].get_xdata(), [record["epoch"] for record in scored])
    assert display.lines_[1].axes is score
    assert (gap.get_yscale(), score.get_yscale()) == ("log", "linear")


def test_one_axes_is_for_the_gap_alone() -> None:
    _, ax = pyplot.subplots()
    display = joker.ConvergenceDisplay(**CONVERGENCE, **BOUNDS, score=[1, 2, 3]).plot(ax)
    assert display.axes_ == (ax,)
    assert len(display.lines_) == len(ax.lines) == 1
    assert ax.get_legend() is None  # there is no name


def test_a_second_estimator_is_drawn_into_the_same_panels(blocks) -> None:
    first = joker.ConvergenceDisplay(**CONVERGENCE, **BOUNDS, estimator_name="one").plot(bounds=True)
    second = joker.ConvergenceDisplay.from_estimator(blocks, ax=first.axes_, bounds=True, name="two")
    assert second.axes_ == first.axes_
    assert len(pyplot.get_fignums()) == 1
    assert first.line_.get_color() != second.line_.get_color()
    assert [text.get_text() for text in first.ax_.get_legend().get_texts()] == ["one", "two"]


@pytest.mark.parametrize("gap", [[np.inf, 1e-3, 0.0], [np.inf, np.nan, np.inf], [-1e-17, 0.0, 0.0]])
def test_a_gap_that_has_no_logarithm_is_drawn_without_warnings(gap: list[float]) -> None:
    display = joker.ConvergenceDisplay(**{**CONVERGENCE, "gap": gap}, **BOUNDS).plot()
    display.figure_.canvas.draw()
    drawn = np.asarray(display.line_.get_ydata())
    assert np.all(drawn[np.isfinite(drawn)] > 0)


def test_the_scores_of_a_path_are_drawn_by_lam_and_the_best_is_marked(path) -> None:
    display = joker.PathDisplay.from_estimator(path)
    assert_array_equal(display.line_.get_xdata(), [0.25, 1.0, 4.0])
    assert_array_equal(display.line_.get_ydata(), path.path_.scores[[1, 2, 0]])
    assert_array_equal(display.mark_.get_xydata(), [[path.lam_, path.path_.scores.max()]])
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.xaxis.get_transform().base == 2
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["KernelRidge", "λ = 0.25"]
    again = joker.PathDisplay.from_estimator(path, ax=display.ax_, name="again", line_kw={"color": "red"})
    assert again.ax_ is display.ax_
    assert again.mark_.get_color() == "red"
    assert again.figure_ is display.figure_


def test_estimators_and_axes_that_cannot_be_used_are_refused(blocks, path) -> None:
    with pytest.raises(NotFittedError):
        joker.ConvergenceDisplay.from_estimator(joker.KernelRidge())
    with pytest.raises(InvalidParameter, match=r"must have history_; got Ridge without it\. Use an estimator of joker"):
        joker.ConvergenceDisplay.from_estimator(Ridge().fit(X, Y))
    with pytest.raises(InvalidParameter, match=r"must have path_; got KernelRidge without it\. Fit it with a sequence"):
        joker.PathDisplay.from_estimator(blocks)
    with pytest.raises(UnknownName, match=r"against must be one of epoch, seconds; got 'time'"):
        joker.ConvergenceDisplay.from_estimator(blocks, against="time")
    with pytest.raises(InvalidParameter, match=r"one Axes or 2 \(gap, bounds\); got 3 of type Axes\. Use None"):
        joker.ConvergenceDisplay.from_estimator(blocks, ax=pyplot.subplots(3)[1], bounds=True)
    with pytest.raises(InvalidParameter, match=r"one Axes \(score\); got 1 of type Figure\. Use None"):
        joker.PathDisplay.from_estimator(path, ax=pyplot.figure())


def test_without_matplotlib_the_remedy_is_named(path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for display in (joker.ConvergenceDisplay, joker.PathDisplay):
        with pytest.raises(MissingPackage, match=r"plots need matplotlib.*pip install 'joker-kernels\[plot\]'"):
            display.from_estimator(path)
