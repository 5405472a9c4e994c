"""Which method solves a problem."""

from __future__ import annotations

from joker.errors import InvalidParameter, UnknownName
from joker.solvers.methods.column_blocks import ColumnBlocks
from joker.solvers.methods.greedy_blocks import GreedyBlocks
from joker.solvers.methods.method import Method, ProblemSize
from joker.solvers.methods.newton import Newton
from joker.solvers.methods.pcg import KernelPcg, NormalEquationsPcg
from joker.solvers.methods.random_blocks import RandomBlocks
from joker.solvers.problem import AUTO

# "auto" takes the first that suits.
METHODS: tuple[type[Method], ...] = (Newton, KernelPcg, NormalEquationsPcg, ColumnBlocks, GreedyBlocks, RandomBlocks)
METHOD_NAMES = (AUTO, *dict.fromkeys(method.name for method in reversed(METHODS)))


def choose(asked: str | type[Method], size: ProblemSize) -> type[Method]:
    """Return the method of a problem: the one asked for, by its name or its class, or the first that suits.

    Examples
    --------
    >>> from joker.losses import Hinge
    >>> choose("auto", ProblemSize(loss=Hinge(), rows=10_000)).name
    'greedy_blocks'
    """
    named = methods_named(asked)
    suited = [method for method in named if method.serves(size)]
    if named is METHODS:
        return next(method for method in suited if method.suits(size))
    if not suited:
        needs, found = ("the exact kernel, n_features=None", size.n_features) if named[0].exact else ("features", None)
        raise InvalidParameter(
            f"method={named[0].name!r} needs {needs}; got n_features={found}. Use method={RandomBlocks.name!r}."
        )
    suited[0].check(size)
    return suited[0]


def methods_named(asked: str | type[Method]) -> tuple[type[Method], ...]:
    """Return the methods that a word may mean; any of them for ``"auto"``, and a class for itself."""
    if isinstance(asked, type) and issubclass(asked, Method):
        return (asked,)
    found = METHODS if asked == AUTO else tuple(method for method in METHODS if method.name == asked)
    if not found:
        raise UnknownName.among("method", asked, METHOD_NAMES)
    return found
