"""Intervals whose width follows the data: coverage, width, quantiles and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import joker
from joker.errors import InvalidData, InvalidFile, InvalidParameter
from joker.tables.spread import MANY_ROWS, MIN_ROWS, PARTS, PARTS_OF_MANY, _parts, fit_spread

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 4, (600, 2))
F = np.sin(X[:, 0])
NOISE = (0.1 + 0.5 * X[:, 0]) * RNG.normal(size=600)


def fit(errors: Any, x: Any = X, f: Any = F, blocks: Any = None) -> Any:
    return fit_spread(x, f, errors, None, blocks, 0, seed=0)


def table(n: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows whose noise grows with a, and is smaller for one of two words."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": draw.uniform(0, 4, n), "b": draw.normal(size=n), "c": draw.choice(["u", "v"], n)})
    scale = (0.1 + 0.5 * frame.a) * np.where(frame.c == "u", 1, 0.3)
    return frame, (2 * np.sin(frame.a) + frame.b + scale * draw.normal(size=n)).to_numpy()


@pytest.fixture(scope="module")
def model() -> joker.JokerRegressor:
    return joker.JokerRegressor(effort=1, random_state=0).fit(*table(800, 0))


def test_a_scale_is_learnt_from_errors_that_have_one() -> None:
    _, spread = fit(NOISE)
    assert spread is not None
    assert np.corrcoef(spread.scale(X, F), 0.1 + 0.5 * X[:, 0])[0, 1] > 0.9
    low, high = spread.quantiles(X, F, np.array([0.05, 0.95])).T
    assert ((low <= NOISE) & (high >= NOISE)).mean() == pytest.approx(0.9, abs=0.03)


def test_rows_of_small_and_large_scales_have_tails_of_their_own() -> None:
    """Errors of one sign and size, whose tails are heavier where the scale is small."""
    heavy = np.where(X[:, 0] < 2, RNG.standard_t(2, size=600), RNG.uniform(-3, 3, size=600))
    errors = (0.2 + X[:, 0]) * heavy
    _, spread = fit(errors)
    assert spread is not None
    assert len(spread.thirds) == 3
    low, high = spread.quantiles(X, F, np.array([0.05, 0.95])).T
    inside = (errors >= low) & (errors <= high)
    for third in np.array_split(np.argsort(spread.scale(X, F)), 3):
        assert inside[third].mean() == pytest.approx(0.9, abs=0.05)


def test_errors_that_are_alike_have_one_width() -> None:
    residuals, spread = fit(RNG.normal(size=600))
    assert spread is None
    assert residuals.rows == 600


@pytest.mark.parametrize(("rows", "parts"), [(MANY_ROWS - 1, PARTS), (MANY_ROWS, PARTS_OF_MANY)])
def test_many_rows_are_crossed_in_fewer_parts(rows: int, parts: int) -> None:
    sizes = np.bincount(_parts(rows, None, 0))
    assert len(sizes) == parts
    assert np.ptp(sizes) <= 1


@pytest.mark.parametrize("errors", [np.zeros(600), NOISE[: MIN_ROWS - 1]], ids=["no errors", "few rows"])
def test_too_little_is_known_of_some_errors(errors: Any) -> None:
    residuals, spread = fit(errors, X[: len(errors)], F[: len(errors)])
    assert spread is None
    assert np.array_equal(residuals.points, np.sort(errors))


def test_the_scale_may_depend_on_the_prediction_only() -> None:
    """As of a target whose logarithm is fitted: there are no inputs."""
    f = np.exp(RNG.normal(size=600))
    _, spread = fit(0.3 * f * RNG.normal(size=600), np.zeros((600, 1)), f)
    assert spread is not None
    assert spread.scale(np.zeros((2, 1)), np.array([0.5, 5.0])) @ [-1, 1] > 0


def test_the_scale_of_new_rows_stays_within_that_of_the_held_out_rows() -> None:
    _, spread = fit(NOISE)
    far = spread.scale(np.full((1, 2), 1e6), np.array([-1e9]))
    assert spread.low <= far[0] <= spread.high


def test_rows_of_a_group_stay_together() -> None:
    """Each group has a scale of its own: rows of other groups do not show it, and one width is as good."""
    groups = np.repeat(np.arange(30), 20)
    own = np.exp(RNG.normal(size=30))[groups]
    places = np.repeat(RNG.normal(size=(30, 2)) * 100, 20, axis=0) + 0.01 * RNG.normal(size=(600, 2))
    errors = own * RNG.normal(size=600)
    assert fit(errors, places, np.zeros(600))[1] is not None
    assert fit(errors, places, np.zeros(600), groups)[1] is None


def test_the_width_follows_the_data_and_the_coverage_stays(model: joker.JokerRegressor) -> None:
    new, y = table(4_000, 1)
    assert model.spread is not None
    low, high = model.predict_interval(new, 0.9).T
    inside = (low <= y) & (y <= high)
    assert inside.mean() == pytest.approx(0.9, abs=0.03)
    for third in np.array_split(np.argsort(high - low), 3):
        assert inside[third].mean() == pytest.approx(0.9, abs=0.05)
    wide, narrow = (high - low)[(new.a > 3) & (new.c == "u")], (high - low)[(new.a < 1) & (new.c == "v")]
    assert wide.mean() > 3 * narrow.mean()


def test_quantiles_never_cross_and_hold_their_shares(model: joker.JokerRegressor) -> None:
    new, y = table(4_000, 1)
    levels = [0.95, 0.05, 0.5, 0.3]
    found = model.predict_quantiles(new, levels)
    assert found.shape == (4_000, 4)
    assert (np.diff(found[:, np.argsort(levels)]) >= 0).all()
    for level, quantile in zip(levels, found.T, strict=True):
        assert (y <= quantile).mean() == pytest.approx(level, abs=0.05)
    np.testing.assert_allclose(found[:, [1, 0]], model.predict_interval(new, 0.9))
    assert model.predict_quantiles(new, 0.5).shape == (4_000, 1)


@pytest.mark.parametrize("wrong", [[], [0.0], [0.5, 1.0], "median", [[0.1]], None, [np.nan]])
def test_a_wrong_quantile_is_refused(model: joker.JokerRegressor, wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="quantiles must be a number, or several, between 0 and 1"):
        model.predict_quantiles(table(5, 1)[0], wrong)


def test_quantiles_need_held_out_rows() -> None:
    small = joker.JokerRegressor(effort=1, random_state=0).fit(*table(20, 0))
    with pytest.raises(InvalidData, match="an interval needs at least 20 held-out rows"):
        small.predict_quantiles(table(5, 1)[0])


def test_a_loaded_model_has_the_same_intervals(model: joker.JokerRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "m.joker")
    again = joker.load(tmp_path / "m.joker")
    new, _ = table(50, 1)
    assert np.array_equal(again.predict_interval(new), model.predict_interval(new))
    assert np.array_equal(again.predict_quantiles(new), model.predict_quantiles(new))
    again.save(tmp_path / "again.joker")
    assert np.array_equal(joker.load(tmp_path / "again.joker").predict_interval(new), model.predict_interval(new))


@pytest.mark.parametrize(
    ("field", "value"),
    [("encoding", 9), ("low", -1.0), ("width", 0.0), ("low", 1e9), ("inputs", "yes"), ("model", None)],
)
def test_a_file_whose_scale_contradicts_the_model_is_refused(
    model: joker.JokerRegressor, monkeypatch: pytest.MonkeyPatch, field: str, value: Any, tmp_path: Path
) -> None:
    from joker.tables import files

    describe = files.KIND.describe

    def damaged(one: Any, **options: Any) -> Any:
        found = describe(one, **options)
        found.entries["spread"][field] = found.entries["members"][0]["model"] if field == "model" else value
        return found

    with monkeypatch.context() as patch:
        patch.setattr(files, "KIND", files.ModelKind(damaged, files.KIND.restore))
        model.save(tmp_path / "m.joker")
    with pytest.raises(InvalidFile):
        joker.load(tmp_path / "m.joker")
