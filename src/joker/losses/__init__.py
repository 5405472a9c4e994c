"""The losses of kernel machines, each with its conjugate.

``get("huber", delta=2.0)`` returns a loss by its name. To add a loss, write one class: see ``docs/adding-a-loss.md``.
"""

from __future__ import annotations

from dataclasses import fields

from joker.errors import InvalidParameter, UnknownName
from joker.losses.classification import Hinge, Logistic, SquaredHinge, ThresholdHinge
from joker.losses.log_link import LOG_MEAN, Gamma, LogLinkLoss, Poisson, Tweedie
from joker.losses.loss import (
    MARGIN,
    RESIDUAL,
    ClassificationLoss,
    InfimalConvolution,
    Loss,
    RegressionLoss,
    Scaled,
    scaled,
)
from joker.losses.multiclass import CrammerSinger, RowLoss, ScaledRowLoss, Softmax
from joker.losses.regression import (
    Absolute,
    EpsilonInsensitive,
    Expectile,
    Huber,
    Lp,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    Tube,
)

NAMES: dict[str, type[Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "quantile": Quantile,
    "expectile": Expectile,
    "lp": Lp,
    "poisson": Poisson,
    "gamma": Gamma,
    "tweedie": Tweedie,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
}
ROW_NAMES: dict[str, type[RowLoss]] = {"softmax": Softmax, "crammer_singer": CrammerSinger}


def get(loss: str | Loss, **parameters: float) -> Loss:
    """Return the loss of that name, or the object itself.

    Parameters
    ----------
    loss : str or Loss
        A name of `joker.losses.NAMES`, or a loss.
    **parameters : float
        The parameters of the loss of that name.

    Returns
    -------
    Loss
        The loss.

    Examples
    --------
    >>> from joker.losses import get
    >>> get("huber", delta=2.0)
    Huber(delta=2.0)
    """
    if isinstance(loss, Loss):
        if parameters:
            raise InvalidParameter(
                f"parameters of a loss must be set in the loss itself when it is an object; got {loss!r} and "
                f"{sorted(parameters)}. Set them where the object is made."
            )
        return loss
    names = {**NAMES, **ROW_NAMES}
    if not isinstance(loss, str) or loss not in names:
        raise UnknownName.among("loss", loss, names)
    kind = names[loss]
    allowed = {field.name for field in fields(kind)}
    if unknown := sorted(set(parameters) - allowed):
        owners = sorted(name for name, other in names.items() if unknown[0] in {field.name for field in fields(other)})
        remedy = f", or use loss={' or '.join(map(repr, owners))}" if owners else ""
        raise InvalidParameter(
            f"parameters of the loss {loss!r} must be among {sorted(allowed) or 'none'}; got {unknown}. "
            f"Leave out {unknown[0]}{remedy}."
        )
    return kind(**parameters)


__all__ = [
    "LOG_MEAN",
    "MARGIN",
    "NAMES",
    "RESIDUAL",
    "ROW_NAMES",
    "Absolute",
    "ClassificationLoss",
    "CrammerSinger",
    "EpsilonInsensitive",
    "Expectile",
    "Gamma",
    "Hinge",
    "Huber",
    "InfimalConvolution",
    "LogLinkLoss",
    "Logistic",
    "Loss",
    "Lp",
    "Poisson",
    "Quantile",
    "RegressionLoss",
    "RowLoss",
    "Scaled",
    "ScaledRowLoss",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "ThresholdHinge",
    "Tube",
    "Tweedie",
    "get",
    "scaled",
]
