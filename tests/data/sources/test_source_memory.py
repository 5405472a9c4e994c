"""Reading a file takes the memory of a batch and a block, independent of the size of the file."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import joker
from joker.data import open_source
from joker.data.readers import libsvm

ROWS, WIDTH = 2_000_000, 3  # of float32: 24 MB as a table, 60 MB as text
MOST = {"h5": 12, "feather": 12, "parquet": 14, "csv": 24}  # MB that reading may add to the peak of the process
PROBE = """
import json, sys
from pathlib import Path
from joker.data import open_source

def peak():  # of this program alone: what getrusage says may be that of the one which started it
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(fields["VmHWM"].split()[0]) * 1024

def read(path):
    return sum(len(batch) for batch in open_source(path).batches(10_000))

grown = {}
for kind in sys.argv[2:]:
    read(f"{sys.argv[1]}/small.{kind}")  # what is imported and kept is not what is measured
    before = peak()
    grown[kind] = (read(f"{sys.argv[1]}/large.{kind}"), (peak() - before) / 2**20)
print(json.dumps(grown))
"""


def write_all(folder: Path, name: str, x: np.ndarray) -> None:
    """Write one table in every kind of file whose library has its own allocator."""
    table = pa.table({f"c{j}": x[:, j] for j in range(x.shape[1])})
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_dataset("X", data=x, chunks=(min(len(x), 10_000), x.shape[1]))
    path = folder / f"{name}.parquet"
    parquet.write_table(table, path, row_group_size=len(x), use_dictionary=False, compression="none")
    feather.write_feather(table, folder / f"{name}.feather", compression="uncompressed")
    lines = "".join(f"{a:.8g},{b:.8g},{c:.8g}\n" for a, b, c in x[:2000].tolist()).encode()
    (folder / f"{name}.csv").write_bytes(lines * (len(x) // 2000))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_memory_is_bounded(tmp_path, rng):
    x = np.tile(rng.normal(size=(ROWS // 100, WIDTH)).astype(np.float32), (100, 1))
    write_all(tmp_path, "large", x)
    write_all(tmp_path, "small", x[:8000])
    place = {**os.environ, "PYTHONPATH": str(Path(joker.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROBE, str(tmp_path), *MOST]
    done = subprocess.run(command, env=place, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    grown = json.loads(done.stdout)
    assert {rows for rows, _ in grown.values()} == {ROWS}
    assert all(growth < MOST[kind] for kind, (_, growth) in grown.items()), grown


def save_text(path: Path, x: np.ndarray) -> None:
    path.write_text("".join(f"1 1:{a:.8g} 2:{b:.8g} 3:{c:.8g}\n" for a, b, c in x[:12_000].tolist()))  # 500 kB


SAVERS = {
    "t.npy": np.save,
    "f.npy": lambda path, x: np.save(path, np.asfortranarray(x)),
    "t.npz": lambda path, x: np.savez(path, X=x, y=x[:, 0]),
    "c.npz": lambda path, x: np.savez_compressed(path, X=x, y=x[:, 0]),
    "t.svm": save_text,
}


@pytest.mark.parametrize("name", SAVERS)
def test_memory_is_that_of_a_batch(tmp_path, rng, monkeypatch, name):
    monkeypatch.setattr(libsvm, "TEXT_BLOCK_BYTES", 2**14)
    x = rng.normal(size=(60_000, WIDTH)).astype(np.float32)  # 720 kB
    SAVERS[name](tmp_path / name, x)
    for batch in open_source(tmp_path / name).batches(1000):  # again: what is imported and kept is not what is measured
        assert len(batch)
    tracemalloc.start()
    try:
        rows = sum(len(batch) for batch in open_source(tmp_path / name).batches(1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows in (len(x), 12_000)
    assert peak < (tmp_path / name).stat().st_size / 2
