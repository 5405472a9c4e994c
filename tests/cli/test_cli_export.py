"""``joker export`` writes the file that the library writes."""

from pathlib import Path

import numpy as np
import pytest
from program import refused, well

import joker

pytest.importorskip("onnx", reason="needs onnx")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(50, 2))
    joker.KernelRidge(lam=0.1).fit(x, x[:, 0]).save(tmp_path / "model.joker")
    return tmp_path


def test_the_file_is_that_of_the_library(folder: Path) -> None:
    summary = well("export", folder / "model.joker", folder / "a.onnx", "--json").document
    joker.export.to_onnx(joker.load(folder / "model.joker"), folder / "b.onnx")
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()
    assert summary["out"] == str(folder / "a.onnx")
    well("export", folder / "model.joker", folder / "a.onnx", "--dtype", "float64")
    assert (folder / "a.onnx").read_bytes() != (folder / "b.onnx").read_bytes()


def test_bad_arguments(folder: Path) -> None:
    wrong = refused("export", folder / "model.joker", folder / "a.txt", status=2)
    assert "FILE must end in .onnx; got 'a.txt'" in wrong
    assert "does not exist" in refused("export", folder / "none.joker", folder / "a.onnx")
    assert "does not. Create it" in refused("export", folder / "model.joker", folder / "no" / "a.onnx")
