"""Rare classes: they are held out in proportion, a ranking decides, and the default is never better."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import joker
from joker.tuning.halving import FIRST_BANDWIDTHS, Candidate, Family, Search, Trial
from joker.tuning.splits import has_rare_class, make_splits, ranking_score, screening_rows

Array = NDArray[Any]


def fraud(n: int, seed: int, share: float = 0.01) -> tuple[Array, Array]:
    """Rows with heavy tails, of which few are of a class that is far out in some inputs."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(size=n) < share
    X = rng.standard_t(4, size=(n, 10))
    X[y] += np.where(np.arange(10) < 4, 2.5, 0.0)
    return X, y


@pytest.mark.parametrize(
    ("counts", "rare"), [([960, 40], True), ([940, 60], False), ([970, 20, 10], True), ([500, 490, 10], False)]
)
def test_a_class_is_rare_if_nearly_all_rows_are_of_another(counts: list[int], rare: bool) -> None:
    assert has_rare_class(np.repeat(np.arange(len(counts)), counts)) is rare
    assert not has_rare_class(np.zeros(100, np.intp))


@pytest.mark.parametrize(("n", "few", "folds"), [(20_000, 34, 3), (20_000, 400, 1), (200_000, 600, 1), (1_000, 12, 3)])
def test_rows_of_a_rare_class_are_held_out_and_come_first(n: int, few: int, folds: int) -> None:
    codes = np.random.default_rng(0).permutation(np.repeat([0, 1], [n - few, few]))
    splits = make_splits(np.arange(n), codes, np.random.RandomState(0), rare=True)
    assert len(splits) == folds
    for split in splits:
        held = np.count_nonzero(codes[split.held])
        assert held >= few // (folds if folds > 1 else 5)
        assert len(split.held) <= 5_000 + few
        assert np.count_nonzero(codes[split.train[:1024]]) >= min(few - held, 256)
        assert not set(split.train) & set(split.held)
        shown = screening_rows(split.held, codes, 512, rare=True)
        assert np.count_nonzero(codes[shown]) == min(held, 256)
        assert len(shown) == len(set(shown)) == min(512, len(split.held))


@pytest.mark.parametrize("share", [0.01, pytest.param(0.003, marks=pytest.mark.slow)])
def test_a_rare_class_is_found(share: float) -> None:
    """By accuracy the search used to choose a machine that is useless for the rare class."""
    (X, y), (X_test, y_test) = fraud(1500, 0, share), fraud(3000, 1, share)
    tuned = joker.tune(X, y, kernels="gaussian", rows=300, relevance=False, random_state=0)
    plain = joker.KernelClassifier(random_state=0).fit(X, y)
    areas = [roc_auc_score(y_test, model.decision_function(X_test)) for model in (tuned.estimator, plain)]
    assert areas[0] > max(0.95, areas[1] - 0.01)
    assert tuned.criterion == "ranking"
    assert tuned.best["score"] == max(e["score"] for e in tuned.table if e["stage"] == tuned.best["stage"])
    assert tuned.best["score"] < 1  # an area, not the accuracy of a constant
    by_hand = joker.tune(X, y, kernels="gaussian", rows=600, random_state=0, scoring="roc_auc", bandwidths=[3.0])
    assert by_hand.criterion == "scoring"


def test_the_ranking_of_several_classes_is_the_mean_of_each_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = joker.KernelSVC().fit(X, y)
    areas = [roc_auc_score(y == label, f) for label, f in zip("abc", model.decision_function(X).T, strict=True)]
    assert ranking_score(model, X, y) == pytest.approx(np.mean(areas))
    two = joker.KernelSVC().fit(X, y == "a")
    assert ranking_score(two, X, y == "a") == pytest.approx(roc_auc_score(y == "a", two.decision_function(X)))
    assert np.isnan(ranking_score(two, X[:5], np.ones(5, bool)))


# The default is tried too


def a_search(default: Candidate, score: Any) -> Trial:
    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        return [Trial(stage, rows, candidate, lam, -score(candidate.bandwidth, lam), 0.0, 0.0) for lam in candidate.lam]

    def first(stage: int, rows: int, candidates: Sequence[Candidate]) -> list[list[Trial]]:
        return [run(stage, rows, candidates[0])]  # there is no time for the others

    return Search(first, out_of_time=lambda: True).best([default.family], [1000, 4000], default)


def test_the_default_wins_if_it_is_better_and_also_when_time_is_up() -> None:
    family = Family("a", FIRST_BANDWIDTHS)
    default = Candidate(family, 7.0, (3.0,))
    best = a_search(default, lambda sigma, lam: float(sigma == 7.0))
    assert (best.candidate.bandwidth, best.lam) == (7.0, 3.0)
    assert a_search(default, lambda sigma, lam: -float(sigma == 7.0)).candidate.bandwidth in FIRST_BANDWIDTHS


def test_the_table_has_the_default() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (120, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=120)
    estimator = joker.KernelRidge(lam=0.37)
    tuned = joker.tune(X, y, estimator=estimator, rows=40, random_state=0)
    last = [entry for entry in tuned.table if entry["stage"] == tuned.best["stage"]]
    (default,) = (entry for entry in last if entry["lam"] == pytest.approx(0.37))
    assert default["kernel"] == "gaussian"
    assert default["bandwidth"] == pytest.approx(joker.KernelRidge().fit(X, y).bandwidth_, rel=0.05)
    assert tuned.best["loss"] <= default["loss"]
    given = joker.tune(X, y, estimator=estimator, bandwidths=[1.0], random_state=0)  # the user restricts the search
    assert {entry["bandwidth"] for entry in given.table} == {1.0}


class Ranked:
    """A fitted classifier with given decision values."""

    def __init__(self, f: Array, classes: list[int]) -> None:
        self.f, self.classes_ = f, np.array(classes)

    def decision_function(self, X: Any) -> Array:
        return self.f


def area(positive: Array, f: Array, w: Array) -> float:
    """The weighted share of pairs in which the row of the class has the larger value, by its definition."""
    pairs = [(w[i] * w[j], f[i] > f[j]) for i in np.flatnonzero(positive) for j in np.flatnonzero(~positive)]
    return sum(weight for weight, right in pairs if right) / sum(weight for weight, _ in pairs)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_ranking_of_a_rare_class_counts_pairs_by_their_weight(classes: int, rng: np.random.Generator) -> None:
    y, w = np.arange(40) % classes, rng.uniform(0.1, 5, 40)
    f = rng.normal(size=40) if classes == 2 else rng.normal(size=(40, 3))
    columns = [(1, f)] if classes == 2 else list(enumerate(f.T))
    model = Ranked(f, list(range(classes)))
    for weights in (w, np.ones(40)):
        expected = np.mean([area(y == label, column, weights) for label, column in columns])
        assert ranking_score(model, None, y, sample_weight=weights) == pytest.approx(expected)
    assert ranking_score(model, None, y, sample_weight=w) != pytest.approx(ranking_score(model, None, y))
