"""Plots of a fitted estimator, like scikit-learn's displays: the convergence of the fit and the scores of a λ path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from joker.errors import InvalidParameter, MissingPackage, UnknownName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

AGAINST = {"epoch": "epochs", "seconds": "seconds"}  # the quantities of the horizontal axis, with their labels
PANELS = {"gap": "relative duality gap", "bounds": "objective over λ", "score": "held-out score"}
# The axis of the gap is logarithmic: a gap below the rounding error, such as 0, is drawn at this value.
SMALLEST_GAP = float(np.finfo(np.float64).eps)
RING: dict[str, Any] = {"marker": "o", "markersize": 10, "fillstyle": "none", "linestyle": ""}
Style = Mapping[str, Any] | None


class ConvergenceDisplay:
    """The convergence of a fit: its duality gap after each epoch, and its score on held-out rows if there are any.

    Use :meth:`from_estimator`, or give the numbers to the constructor.

    Parameters
    ----------
    epoch, seconds : array of shape (k,)
        The times at which the gap was evaluated.
    gap : array of shape (k,)
        The relative duality gap: a bound on the distance to the optimum, as a share of the objective.
    primal, dual : array of shape (k,)
        Upper and lower bounds on the minimum of the objective over λ.
    score : array of shape (k,), optional
        The score on held-out rows; NaN for epochs that were not scored.
    estimator_name : str, optional
        The name of the estimator in the legend; without it there is no legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The panel of the gap.
    axes_ : tuple of matplotlib Axes
        All panels, in the order gap, bounds, score. Pass them as ``ax`` to draw another estimator into the same panels.
    figure_ : matplotlib Figure
        The figure of the panels.
    line_ : matplotlib Line2D
        The line of the gap.
    lines_ : tuple of matplotlib Line2D
        All lines, in the order of the panels; the panel of bounds has two, primal and dual.

    Examples
    --------
    >>> import numpy as np, joker
    >>> X = np.random.default_rng(0).uniform(-3, 3, (200, 1))
    >>> model = joker.KernelSVR(block_size=50, tol=1e-4, max_epochs=50).fit(X, np.sin(X[:, 0]))
    >>> display = joker.ConvergenceDisplay.from_estimator(model)  # doctest: +SKIP
    >>> display.figure_.savefig("convergence.png")  # doctest: +SKIP
    """

    ax_: Axes
    axes_: tuple[Axes, ...]
    figure_: Figure | SubFigure
    line_: Line2D
    lines_: tuple[Line2D, ...]

    def __init__(
        self,
        *,
        epoch: ArrayLike,
        seconds: ArrayLike,
        gap: ArrayLike,
        primal: ArrayLike,
        dual: ArrayLike,
        score: ArrayLike | None = None,
        estimator_name: str | None = None,
    ) -> None:
        self.epoch, self.seconds = np.asarray(epoch, dtype=float), np.asarray(seconds, dtype=float)
        self.gap = np.asarray(gap, dtype=float)
        self.primal, self.dual = np.asarray(primal, dtype=float), np.asarray(dual, dtype=float)
        self.score = None if score is None else np.asarray(score, dtype=float)
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        against: str = "epoch",
        bounds: bool = False,
        ax: Axes | Sequence[Axes] | None = None,
        name: str | None = None,
        line_kw: Style = None,
    ) -> Self:
        """Plot the ``history_`` of a fitted estimator.

        Parameters
        ----------
        estimator : estimator of joker
            A fitted estimator. Of a pipeline, use the last step.
        against : {"epoch", "seconds"}
            The quantity of the horizontal axis.
        bounds : bool
            Whether to add a panel with the primal and the dual bound.
        ax : matplotlib Axes, sequence of them, or None
            One Axes for the gap alone, one Axes for each panel, or None for a new figure.
        name : str, optional
            The name in the legend; by default that of the class.
        line_kw : dict, optional
            Keyword arguments of matplotlib's ``plot`` for every line, such as ``{"color": "black"}``.

        Returns
        -------
        ConvergenceDisplay
            The display, with the axes and lines in its attributes.
        """
        history = _fitted(estimator, "history_", "Use an estimator of joker; of a pipeline, its last step, pipe[-1].")
        columns = {key: [record[key] for record in history] for key in ("epoch", "seconds", "gap", "primal", "dual")}
        score = [record.get("validation_score", np.nan) for record in history]
        display = cls(
            **columns,
            score=score if np.isfinite(score).any() else None,
            estimator_name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, against=against, bounds=bounds, line_kw=line_kw)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        against: str = "epoch",
        bounds: bool = False,
        name: str | None = None,
        line_kw: Style = None,
    ) -> Self:
        """Draw; the parameters are those of :meth:`from_estimator`."""
        if against not in AGAINST:
            raise UnknownName.among("against", against, AGAINST)
        panels = ["gap", *(["bounds"] if bounds else []), *([] if self.score is None else ["score"])]
        self.axes_ = _axes(ax, panels)
        lines: list[Line2D] = []
        for panel, axes in zip(panels, self.axes_, strict=False):
            style = {"color": lines[0].get_color()} if lines else {}
            lines += self._draw(panel, axes, against, name, {**style, **(line_kw or {})})
        self.axes_[-1].set_xlabel(AGAINST[against])
        self.ax_, self.line_, self.lines_ = self.axes_[0], lines[0], tuple(lines)
        self.figure_ = self.ax_.figure
        return self

    def _draw(self, panel: str, ax: Axes, against: str, name: str | None, style: dict[str, Any]) -> list[Line2D]:
        """Draw one panel, all lines in one colour, and return them."""
        lines: list[Line2D] = []
        for (part, values), dash in zip(self._parts(panel).items(), ("-", "--"), strict=False):
            label = ", ".join(word for word in (self.estimator_name if name is None else name, part) if word)
            shown = ~np.isnan(values)
            kind = {"marker": ".", "linestyle": dash, "label": label, **style}
            lines += ax.plot(np.asarray(getattr(self, against))[shown], values[shown], **kind)
            style = {"color": lines[0].get_color(), **style}
        ax.set(ylabel=PANELS[panel], yscale="log" if panel == "gap" else "linear")
        _name_lines(ax)
        return lines

    def _parts(self, panel: str) -> dict[str, Any]:
        """The values that a panel shows, by their names in the legend."""
        if panel == "bounds":
            return {"primal": self.primal, "dual": self.dual}
        return {"": np.maximum(self.gap, SMALLEST_GAP) if panel == "gap" else self.score}


class PathDisplay:
    """The scores of a path of λ on held-out rows, with the chosen λ marked.

    Use :meth:`from_estimator`, or give the numbers to the constructor.

    Parameters
    ----------
    lam, scores : array of shape (L,)
        The values of λ in any order, and the score of each; higher is better.
    chosen : float
        The λ of the model.
    estimator_name : str, optional
        The name of the estimator in the legend; without it there is no legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The panel.
    figure_ : matplotlib Figure
        The figure of the panel.
    line_ : matplotlib Line2D
        The line of the scores, in the order of λ.
    mark_ : matplotlib Line2D
        The mark at the chosen λ.

    Examples
    --------
    >>> import numpy as np, joker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=500)
    >>> model = joker.KernelRidge(lam=2.0 ** np.arange(-8, 8), random_state=1).fit(X, y)
    >>> display = joker.PathDisplay.from_estimator(model)  # doctest: +SKIP
    >>> display.figure_.savefig("path.png")  # doctest: +SKIP
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    mark_: Line2D

    def __init__(self, *, lam: ArrayLike, scores: ArrayLike, chosen: float, estimator_name: str | None = None) -> None:
        self.lam, self.scores = np.asarray(lam, dtype=float), np.asarray(scores, dtype=float)
        self.chosen, self.estimator_name = float(chosen), estimator_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | None = None, name: str | None = None, line_kw: Style = None
    ) -> Self:
        """Plot the ``path_`` of a fitted estimator.

        Parameters
        ----------
        estimator : estimator of joker
            An estimator that was fitted with a sequence for ``lam``. Of a pipeline, use the last step.
        ax : matplotlib Axes, optional
            The Axes to draw in; by default a new figure.
        name : str, optional
            The name in the legend; by default that of the class.
        line_kw : dict, optional
            Keyword arguments of matplotlib's ``plot`` for the line, such as ``{"color": "black"}``.

        Returns
        -------
        PathDisplay
            The display, with the axes and lines in its attributes.
        """
        path = _fitted(estimator, "path_", "Fit it with a sequence of penalties, such as lam=[0.01, 0.1, 1.0].")
        name = type(estimator).__name__ if name is None else name
        display = cls(lam=path.lam, scores=path.scores, chosen=path.lam[path.best], estimator_name=name)
        return display.plot(ax, line_kw=line_kw)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, line_kw: Style = None) -> Self:
        """Draw; the parameters are those of :meth:`from_estimator`."""
        (self.ax_,) = _axes(ax, ["score"])
        self.figure_ = self.ax_.figure
        label = (self.estimator_name if name is None else name) or ""
        order, chosen = np.argsort(self.lam), self.lam == self.chosen
        style = {"marker": ".", "label": label, **(line_kw or {})}
        (self.line_,) = self.ax_.plot(self.lam[order], self.scores[order], **style)
        style = {**RING, "color": self.line_.get_color(), "label": f"λ = {self.chosen:.3g}" if label else ""}
        (self.mark_,) = self.ax_.plot(self.lam[chosen], self.scores[chosen], **style)
        self.ax_.set_xscale("log", base=2)
        self.ax_.set(xlabel="λ", ylabel=PANELS["score"])
        _name_lines(self.ax_)
        return self


def _fitted(estimator: Any, attribute: str, remedy: str) -> Any:
    """Return an attribute that the fit has set."""
    check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise InvalidParameter(f"estimator must have {attribute}; got {type(estimator).__name__} without it. {remedy}")
    return getattr(estimator, attribute)


def _axes(given: Axes | Sequence[Axes] | None, panels: list[str]) -> tuple[Axes, ...]:
    """The axes of the panels: those given, of which one is for the first panel alone, or those of a new figure."""
    try:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    except ImportError as error:
        raise MissingPackage(
            "plots need matplotlib, which is not installed. Run pip install 'joker-kernels[plot]'."
        ) from error
    if given is None:
        size = (6.4, max(4.8, 2.6 * len(panels)))
        _, grid = pyplot.subplots(len(panels), sharex=True, squeeze=False, figsize=size, layout="constrained")
        return tuple(grid[:, 0])
    axes = (given,) if isinstance(given, Axes) else tuple(np.ravel(np.asarray(given, dtype=object)))
    if len(axes) not in {1, len(panels)} or not all(isinstance(ax, Axes) for ax in axes):
        count = f"one Axes or {len(panels)}" if len(panels) > 1 else "one Axes"
        got = f"{len(axes)} of type {', '.join(sorted({type(ax).__name__ for ax in axes}))}"
        raise InvalidParameter(f"ax must be {count} ({', '.join(panels)}); got {got}. Use None for a new figure.")
    return axes


def _name_lines(ax: Axes) -> None:
    """Show a legend if a line has a name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend()
