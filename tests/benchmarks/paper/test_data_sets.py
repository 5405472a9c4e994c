"""Data sets from files of the official formats, their splits, and generated rows."""

from dataclasses import replace

import numpy as np
import pytest
from whole_source import read_whole

from benchmarks.paper.datasets import SETS, generate, load
from benchmarks.paper.sources import DRAWN_ROWS, RandomPart
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingFile, UnknownName

ROWS, HELD_OUT = 90, 12


def shrink(monkeypatch, name, **changes):
    monkeypatch.setitem(SETS, name, replace(SETS[name], **changes))


def write_numbers(path, x, fmt="%.18e"):
    np.savetxt(path, x, delimiter=",", fmt=fmt)


def as_rows(x):
    return {tuple(row) for row in np.asarray(x).tolist()}


@pytest.mark.parametrize(("name", "file", "width"), [("susy", "SUSY.csv", 18), ("higgs", "HIGGS.csv.gz", 28)])
def test_particles(tmp_path, rng, monkeypatch, name, file, width):
    """The label is the first column, in the notation of the official files."""
    shrink(monkeypatch, name, rows=ROWS, held_out=HELD_OUT)
    x = rng.normal(size=(ROWS, width)).astype(np.float32)
    y = rng.integers(0, 2, ROWS).astype(float)
    write_numbers(tmp_path / file, np.column_stack([y, x]))
    whole = load(name, tmp_path, "all")
    np.testing.assert_array_equal(read_whole(whole)[0], x)
    np.testing.assert_array_equal(read_whole(whole)[1], y)
    assert whole.schema.target == "label"
    train, test = (load(name, tmp_path, split, rule="official") for split in ("train", "test"))
    assert (train.rows, test.rows) == (ROWS - HELD_OUT, HELD_OUT)
    np.testing.assert_array_equal(read_whole(train)[0], x[:-HELD_OUT])
    np.testing.assert_array_equal(read_whole(test)[1], y[-HELD_OUT:])


def test_the_draw_of_the_paper(tmp_path, rng, monkeypatch):
    shrink(monkeypatch, "susy", rows=ROWS, held_out=HELD_OUT)
    x = rng.normal(size=(ROWS, 19)).astype(np.float32)
    write_numbers(tmp_path / "SUSY.csv", x)
    train, test = (read_whole(load("susy", tmp_path, split))[0] for split in ("train", "test"))
    assert as_rows(train) | as_rows(test) == as_rows(x[:, 1:])
    assert len(train) + len(test) == ROWS
    assert 0.6 < len(train) / ROWS < 0.95
    np.testing.assert_array_equal(read_whole(load("susy", tmp_path), 90)[0], train)
    assert as_rows(read_whole(load("susy", tmp_path, seed=1))[0]) != as_rows(train)


def test_a_random_part_does_not_depend_on_the_size_of_batches():
    draw = RandomPart(0.8, 3)
    whole = draw.mask(0, 3 * DRAWN_ROWS)
    np.testing.assert_array_equal(
        draw.mask(DRAWN_ROWS - 5, DRAWN_ROWS + 10), whole[DRAWN_ROWS - 5 : 2 * DRAWN_ROWS + 5]
    )
    np.testing.assert_array_equal(~whole, RandomPart(0.8, 3, inside=False).mask(0, 3 * DRAWN_ROWS))
    assert draw.count(3 * DRAWN_ROWS) == whole.sum()
    assert draw.count(DRAWN_ROWS + 7) == whole[: DRAWN_ROWS + 7].sum()
    assert abs(whole.mean() - 0.8) < 0.005


def test_msd(tmp_path, rng, monkeypatch):
    """Years and values as in the official file, and the official split."""
    shrink(monkeypatch, "msd", rows=ROWS, held_out=HELD_OUT)
    x, years = rng.normal(scale=50, size=(ROWS, 90)).round(5), rng.integers(1922, 2012, ROWS)
    lines = [",".join([str(year), *(f"{value:.5f}" for value in row)]) for year, row in zip(years, x, strict=True)]
    (tmp_path / "YearPredictionMSD.txt").write_text("\n".join(lines) + "\n")
    for rule in ("paper", "official"):
        train, test = (load("msd", tmp_path, split, rule=rule) for split in ("train", "test"))
        np.testing.assert_array_equal(read_whole(train)[1], years[:-HELD_OUT])
        np.testing.assert_allclose(read_whole(test)[0], x[-HELD_OUT:], rtol=1e-6)
    assert train.schema.target == "year"


HEADER = "Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity;"
POWER = f"""{HEADER}Sub_metering_1;Sub_metering_2;Sub_metering_3
16/12/2006;17:24:00;4.216;0.418;234.840;18.400;0.000;1.000;17.000
28/4/2007;00:21:00;?;?;?;?;?;?;
1/1/2007;00:05:00;2.580;0.136;241.970;10.600;0.000;0.000;0.000
"""


def test_household_power(tmp_path, monkeypatch):
    shrink(monkeypatch, "hepc", rows=2)
    (tmp_path / "household_power_consumption.txt").write_text(POWER)
    source = load("hepc", tmp_path, "all")
    x, y = read_whole(source, 1)
    wanted = [[16, 12, 2006, 17, 24, 0.418, 234.84, 18.4, 0, 1, 17], [1, 1, 2007, 0, 5, 0.136, 241.97, 10.6, 0, 0, 0]]
    np.testing.assert_array_equal(x, np.array(wanted, np.float32))
    np.testing.assert_array_equal(y, np.log([4.216, 2.58]))
    assert source.schema.names[:2] == ("day", "month")
    (tmp_path / "household_power_consumption.txt").write_text(POWER.replace("Voltage", "Volts"))
    with pytest.raises(InvalidFile, match="must have the columns Date, Time"):
        read_whole(load("hepc", tmp_path, "all"))


def test_cifar5m(tmp_path, rng):
    images, labels = rng.integers(0, 256, (60, 32, 32, 3)).astype(np.uint8), rng.integers(0, 10, 60)
    for part in range(6):
        rows = slice(part * 10, part * 10 + 10)
        np.savez(tmp_path / f"cifar5m_part{part}.npz", X=images[rows], Y=labels[rows])
    whole = load("cifar5m", tmp_path, "all")
    assert (whole.rows, whole.dtype, whole.schema.width) == (60, np.uint8, 3072)
    x, y = read_whole(whole)
    np.testing.assert_array_equal(x, images.reshape(60, -1))
    np.testing.assert_array_equal(y, labels)
    train, test = load("cifar5m", tmp_path), load("cifar5m", tmp_path, "test")
    assert train.rows + test.rows == 60
    assert len(read_whole(train)[0]) == train.rows
    with pytest.raises(InvalidParameter, match="no official split"):
        load("cifar5m", tmp_path, rule="official")
    (tmp_path / "cifar5m_part3.npz").unlink()
    with pytest.raises(MissingFile, match=r"must contain cifar5m_part3.npz or part3\.npz; it does not\. Get it from"):
        load("cifar5m", tmp_path)


def test_a_file_of_another_size_is_refused(tmp_path, rng, monkeypatch):
    shrink(monkeypatch, "susy", rows=ROWS + 1)
    write_numbers(tmp_path / "SUSY.csv", rng.normal(size=(ROWS, 19)))
    with pytest.raises(InvalidData, match="must have the 91 rows of the data set; it has 90"):
        read_whole(load("susy", tmp_path))
    write_numbers(tmp_path / "SUSY.csv", rng.normal(size=(ROWS, 18)))
    with pytest.raises(InvalidData, match="must have the 18 inputs of susy; it has 17"):
        load("susy", tmp_path)


def test_smaller_sets(tmp_path, rng):
    images = rng.integers(0, 256, (9, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", X_train=images[:6], y_train=np.arange(6), X_test=images[6:], y_test=np.arange(3))
    np.testing.assert_array_equal(read_whole(load("mnist", tmp_path, "test"))[0], images[6:].reshape(3, -1))
    assert load("mnist", tmp_path, "all").rows == 9
    np.savez(tmp_path / "kin40k.npz", X=rng.normal(size=(50, 8)), y=np.arange(50.0), test_mask=np.ones((50, 10)))
    assert load("kin40k", tmp_path).rows + load("kin40k", tmp_path, "test").rows == 50
    (tmp_path / "a9a").write_text("-1 3:1 11:1\n+1 5:1\n")
    (tmp_path / "a9a.t").write_text("-1 1:1 123:1\n")
    assert read_whole(load("a9a", tmp_path, "all"))[0].shape == (3, 123)


@pytest.mark.slow
def test_the_data_sets_in_the_folder(data_dir):
    shapes = {"hepc": (2_049_280, 11), "covtype": (581_012, 54), "higgs33k": (33_461, 28), "mnist": (70_000, 784)}
    shapes |= {"a9a": (48_842, 123), "kin40k": (40_000, 8), "protein": (45_730, 9)}
    for name, (rows, width) in shapes.items():
        source = load(name, data_dir, "all")
        assert source.schema.width == width
        assert sum(len(batch) for batch in source.batches(50_000)) == rows


def test_the_folder_may_be_named_by_a_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("JOKER_DATA", raising=False)
    with pytest.raises(InvalidParameter, match="must name the folder"):
        load("susy")
    monkeypatch.setenv("JOKER_DATA", str(tmp_path))
    with pytest.raises(MissingFile, match=r"must contain SUSY.csv or SUSY.csv.gz"):
        load("susy")
    monkeypatch.setenv("JOKER_DATA", str(tmp_path / "gone"))
    with pytest.raises(MissingFile, match="the folder of data sets must exist"):
        load("susy")


@pytest.mark.parametrize(("what", "value"), [("name", "sussy"), ("split", "valid"), ("rule", "mine")])
def test_unknown_names_are_explained(tmp_path, what, value):
    with pytest.raises(UnknownName, match=f"{what} must be one of"):
        load(**{"name": "susy", "folder": tmp_path, what: value})


@pytest.mark.parametrize(("name", "width", "dtype"), [("higgs", 28, "f4"), ("susy", 18, "f4"), ("cifar5m", 3072, "u1")])
def test_generated_rows(name, width, dtype):
    source = generate(name, 400, seed=3)
    x, y = read_whole(source, 7)
    assert x.shape == (400, width)
    assert source.dtype == dtype
    again, targets = read_whole(source, 1000)  # cut otherwise
    np.testing.assert_array_equal(again, x)
    np.testing.assert_array_equal(targets, y)
    np.testing.assert_array_equal(read_whole(generate(name, 250, seed=3))[0], x[:250])
    assert not np.array_equal(read_whole(generate(name, 400, seed=4))[0], x)
    assert "generated" in source.name
    assert source.schema.names[0] == "generated0"
    assert len({tuple(row) for row in x}) == 400  # no row is there twice


@pytest.mark.parametrize(("name", "share"), [("higgs", 0.530), ("susy", 0.458)])
def test_generated_classes_have_the_shares_of_the_real_ones(name, share):
    y = np.concatenate([batch.y for batch in generate(name, 60_000).batches(10_000)])
    assert abs(y.mean() - share) < 0.01
    assert set(np.unique(y)) == {0, 1}


def test_generated_classes_can_be_learnt():
    x, y = read_whole(generate("higgs", 4000), 4000)
    products = x[:, 0:6:2] * x[:, 1:6:2]
    assert np.mean((products.sum(1) > 0) == (y == 1)) > 0.75
    images, labels = read_whole(generate("cifar5m", 300), 300)
    means = np.array([images[:200][labels[:200] == k].mean(0) for k in range(10)])
    nearest = ((images[200:, None].astype(float) - means) ** 2).sum(2).argmin(1)
    assert np.mean(nearest == labels[200:]) > 0.8


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_wrong_number_of_rows_is_explained(n):
    with pytest.raises(InvalidParameter, match="n must be a whole number"):
        generate("higgs", n)
    with pytest.raises(UnknownName, match="name must be one of"):
        generate("covtype", 10)
    with pytest.raises(InvalidParameter, match="rows must be a whole number"):
        next(generate("higgs", 10).batches(0))
