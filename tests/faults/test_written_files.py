"""Files that are written: leftovers are swept, writers do not mix, and what is said is what is there."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.campaign import REFUSED, count
from program import refused, run, well, write_table

import joker
from joker.callbacks import Checkpoint
from joker.errors import InvalidFile, InvalidParameter, NotSynced
from joker.models import files as model_files
from joker.runtime import files
from joker.runtime.files import exclusive, replace_file

X = np.random.default_rng(0).normal(size=(60, 2))
MODEL = joker.KernelRidge(random_state=0).fit(X, X[:, 0])
INPUTS = ("--columns", "a,b")
posix = pytest.mark.skipif(os.name != "posix", reason="needs locks and signals of POSIX")
KILLED = """
import os, signal, sys
from joker.runtime.files import replace_file
with replace_file(sys.argv[1], "x") as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def writer(path: Path, action: str) -> subprocess.Popen[str]:
    """Start a process that writes a file, and is killed or waits in the middle."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), action], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@posix
def test_files_of_a_killed_process_are_swept_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    with writer(tmp_path / "a.joker", "kill") as killed:
        assert killed.wait(30) == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(".joker-")
    with writer(tmp_path / "b.joker", "wait") as living:
        assert len(names(tmp_path)) == 1  # the next writer has swept the first one's file
        MODEL.save(tmp_path / "c.joker")
        assert len(names(tmp_path)) == 2
        assert "c.joker" in names(tmp_path)
        living.communicate("", timeout=30)
    assert names(tmp_path) == {"b.joker", "c.joker"}
    assert (tmp_path / "b.joker").read_bytes() == b"half"


def killed(work: Callable[[], object]) -> None:
    """Do some work, which ends in a kill, in a process of its own."""
    if (child := os.fork()) == 0:
        work()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@posix
@pytest.mark.parametrize("call", [1, 3, 4])
def test_a_save_that_is_killed_leaves_one_file_that_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """It has two tensors, whose bytes are taken once for the checksum and once to write them."""
    whole, calls = model_files._bytes, iter(range(1, 5))
    with monkeypatch.context() as patch:
        patch.setattr(model_files, "_bytes", lambda tensor: die() if next(calls) == call else whole(tensor))
        killed(lambda: MODEL.save(tmp_path / "b.joker"))
    (left,) = names(tmp_path)
    assert left.startswith(".joker-")
    os.utime(tmp_path / left, (time.time() - 3600,) * 2)  # nothing of a small file may have been written yet
    MODEL.save(tmp_path / "c.joker")
    assert names(tmp_path) == {"c.joker"}


def test_an_empty_temporary_file_is_swept_when_it_is_old(tmp_path: Path) -> None:
    young, old = tmp_path / ".joker-aa.tmp", tmp_path / ".joker-bb.tmp"
    young.touch()
    old.touch()
    os.utime(old, (time.time() - 3600,) * 2)
    MODEL.save(tmp_path / "m.joker")
    assert names(tmp_path) == ({".joker-aa.tmp", "m.joker"} if os.name == "posix" else names(tmp_path))


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in (".joker-aa.txt", "joker-aa.tmp", ".other.tmp"):
        (tmp_path / name).write_text("mine")
    MODEL.save(tmp_path / "m.joker")
    assert len(names(tmp_path)) == 4


@posix
def test_what_is_no_file_but_is_named_like_one_of_ours_is_left_alone(tmp_path: Path) -> None:
    """To open a pipe would wait for ever; a link may lead to a file of somebody else."""
    os.mkfifo(tmp_path / ".joker-aa.tmp")
    os.mkfifo(tmp_path / ".joker-bb.lock")
    (tmp_path / ".joker-cc.tmp").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".joker-dd.tmp").symlink_to(tmp_path / "mine")
    (tmp_path / ".t.rows.aa.part").mkdir()
    os.mkfifo(tmp_path / ".t.rows.aa.part" / "lock")
    (tmp_path / ".t.rows.bb.part").symlink_to(tmp_path)
    before = names(tmp_path)
    MODEL.save(tmp_path / "m.joker")
    with exclusive(tmp_path / "m.joker"):
        pass
    np.savez(tmp_path / "t.npz", X=X, y=X[:, 0])
    joker.data.convert(tmp_path / "t.npz", tmp_path / "t.rows")
    assert names(tmp_path) == before | {"m.joker", "t.npz", "t.rows"}
    assert (tmp_path / "mine").read_text() == "mine"


@posix
def test_a_lock_follows_no_link(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "m.joker", tmp_path / "elsewhere"
    with exclusive(path):
        (lock,) = names(tmp_path)
    (tmp_path / lock).symlink_to(elsewhere)
    with pytest.raises(InvalidFile, match="Nothing is left of the new file"), exclusive(path):
        pass
    assert not elsewhere.exists()


@posix
def test_two_writers_of_one_file_both_end_whole(tmp_path: Path) -> None:
    path = tmp_path / "m.joker"
    with writer(path, "wait") as other:
        MODEL.save(path)
        assert np.array_equal(joker.load(path).predict(X), MODEL.predict(X))
        other.communicate("", timeout=30)
    assert path.read_bytes() == b"half"  # the one that ends last has replaced the whole file
    assert names(tmp_path) == {"m.joker"}


@posix
def test_a_second_fit_to_the_same_model_is_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path / "train.csv")
    out = tmp_path / "m.joker"
    fit = ("fit", table, "-t", "size", *INPUTS, "-m", 20, "--quiet", "--out", out)
    with exclusive(out):
        assert "another one writes it now" in refused(*fit)
        assert "another one writes it now" in refused("tune", table, "-t", "size", *INPUTS, "-m", 20, "--out", out)
    well(*fit)
    assert names(tmp_path) == {"train.csv", "m.joker"}


@posix
def test_a_second_fit_of_a_raw_table_to_the_same_model_is_refused(tmp_path: Path) -> None:
    table, out = write_table(tmp_path / "train.csv"), tmp_path / "m.joker"
    with exclusive(out):
        assert "another one writes it now" in refused("fit", table, "-t", "size", "--quiet", "--out", out)
    assert names(tmp_path) == {"train.csv"}
    count(REFUSED)


def die_with_lock(path: Path) -> None:
    with exclusive(path):
        die()


@posix
@pytest.mark.parametrize("name", ["m.joker", "n" * 255])
def test_the_lock_of_a_killed_process_is_removed_by_any_writer(tmp_path: Path, name: str) -> None:
    killed(lambda: die_with_lock(tmp_path / name))
    assert len(names(tmp_path)) == 1
    with exclusive(tmp_path / "other"):
        (held,) = names(tmp_path)  # the new lock
    assert names(tmp_path) == set()
    killed(lambda: die_with_lock(tmp_path / name))
    with exclusive(tmp_path / "other"):
        MODEL.save(tmp_path / "o.joker")
        assert names(tmp_path) == {held, "o.joker"}  # the lock of a living process stays


def test_a_lock_that_is_looked_at_is_no_second_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that looks for abandoned locks holds one for a moment."""
    lock, refusals = files._lock, iter([True, True])

    def briefly(handle: int, *, wait: bool = False) -> None:
        if next(refusals, False):
            raise BlockingIOError
        lock(handle, wait=wait)

    monkeypatch.setattr(files, "_lock", briefly)
    with exclusive(tmp_path / "m.joker"):
        assert len(names(tmp_path)) == 1


# Disk errors


def saved_with_room(model: Any, path: Path, room: int) -> bool:
    """Save a model in a process that may write files of so many bytes, and return whether that is enough."""
    import resource

    if (child := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            model.save(path)
        except InvalidFile as error:
            os._exit(2 if "Nothing is left of the new file" in str(error) else 3)
        except BaseException:
            os._exit(4)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 2), status
    return status == 0


@posix
@pytest.mark.parametrize("kind", ["a kernel machine", "a table"])
def test_a_disk_that_is_full_at_any_place_of_a_save_keeps_the_old_model(tmp_path: Path, kind: str) -> None:
    """The header is written first, then each tensor."""
    path, model = tmp_path / "m.joker", MODEL
    if kind == "a table":
        rows = [{"size": float(one), "word": "ab"[int(one > 0)]} for one in X[:, 0]]
        model = joker.JokerRegressor(effort=1, random_state=0).fit(rows, X[:, 1])
    model.save(path)
    size = path.stat().st_size
    MODEL.save(path)
    old = path.read_bytes()
    for room in (0, 1, 1_000, size // 3, size // 2, size - 200, size - 1):
        assert not saved_with_room(model, path, room), room
        assert path.read_bytes() == old
        assert names(tmp_path) == {"m.joker"}
        count(REFUSED)
    assert saved_with_room(model, path, size)
    assert path.stat().st_size == size


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_folder_that_is_not_synced_is_said_and_the_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    whole = files._sync

    def sync(path: Path, access: int) -> None:
        if path.is_dir():
            raise OSError(number, os.strerror(number))
        whole(path, access)

    monkeypatch.setattr(files, "_sync", sync)
    with pytest.warns(NotSynced, match=r"m\.joker is complete and in its place"):
        MODEL.save(tmp_path / "m.joker")
    assert np.array_equal(joker.load(tmp_path / "m.joker").predict(X), MODEL.predict(X))
    np.savez(tmp_path / "t.npz", X=X, y=X[:, 0])
    with pytest.warns(NotSynced):
        store = joker.data.convert(tmp_path / "t.npz", tmp_path / "t.rows")
    assert len(store) == 60


@pytest.mark.parametrize("fault", ["open", "fsync", "replace", "write"])
def test_an_error_at_every_step_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = tmp_path / "m.joker"
    path.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if fault == "open":
        monkeypatch.setattr(Path, "open", fail)
    elif fault != "write":
        monkeypatch.setattr(os, fault, fail)

    def write() -> None:
        with replace_file(path, "x") as file:
            if fault == "write":
                fail()
            file.write(b"new")

    with pytest.raises(InvalidFile, match="Nothing is left of the new file"):
        write()
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == {"m.joker"}
    count(REFUSED)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_checkpoint_on_a_full_disk_has_no_words_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0")

    monkeypatch.setattr("torch.save", fail)
    with pytest.raises(InvalidFile, match=r"failed, and .* are free there") as caught:
        joker.KernelRidge(callbacks=[Checkpoint(tmp_path / "c")], block_size=20, random_state=0).fit(X, X[:, 0])
    assert "enforce" not in str(caught.value)
    assert names(tmp_path) == set()
    count(REFUSED)


@posix
@pytest.mark.parametrize("resume", [True, False])
def test_a_checkpoint_that_is_a_pipe_or_a_device_is_refused(tmp_path: Path, resume: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        model = joker.KernelRidge(callbacks=[Checkpoint(tmp_path / name, resume=resume)], block_size=20, random_state=0)
        with pytest.raises(InvalidFile, match="is a pipe or a device"):
            model.fit(X, X[:, 0])
        count(REFUSED)


def test_a_path_that_ends_in_a_slash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="ends in a slash"):
        MODEL.save(f"{tmp_path}/model/")
    table = write_table(tmp_path / "train.csv")
    commands: list[tuple[Any, ...]] = [
        ("fit", table, "-t", "size", *INPUTS, "-m", 20, "--out", f"{tmp_path}/model/"),
        ("tune", table, "-t", "size", *INPUTS, "-m", 20, "--out", f"{tmp_path}/model/"),
        ("convert", table, f"{tmp_path}/t.rows/", "-t", "size"),
    ]
    for command in commands:
        assert "ends in a slash" in refused(*command, status=2)
        count(REFUSED)
    assert names(tmp_path) == {"train.csv"}


@posix
@pytest.mark.parametrize(("command", "name"), [("fit", "m.joker"), ("predict", "p.csv"), ("convert", "t.rows")])
def test_a_link_that_leads_to_itself_is_replaced(tmp_path: Path, command: str, name: str) -> None:
    table, out, model = write_table(tmp_path / "train.csv"), tmp_path / name, tmp_path / "model.joker"
    well("fit", table, "-t", "size", *INPUTS, "-m", 20, "--quiet", "--out", model)
    out.symlink_to(name)
    commands: dict[str, tuple[Any, ...]] = {
        "fit": ("fit", table, "-t", "size", *INPUTS, "-m", 20, "--quiet", "--out", out),
        "predict": ("predict", model, table, "--out", out, "--quiet"),
        "convert": ("convert", table, out, "-t", "size", *INPUTS, "--quiet"),
    }
    well(*commands[command])
    assert out.is_file()
    assert not out.is_symlink()
    assert names(tmp_path) == {"train.csv", "model.joker", name}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_says_where_the_model_is(tmp_path: Path) -> None:
    table, out = write_table(tmp_path / "train.csv"), tmp_path / "m.joker"
    command = [
        sys.executable,
        "-m",
        "joker",
        "fit",
        table,
        "-t",
        "size",
        *INPUTS,
        "-m",
        "20",
        "--json",
        "-q",
        "--out",
        out,
    ]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert f"Only this report is lost: {out} is complete." in done.stderr
    joker.load(out)


def test_the_report_goes_to_standard_output_as_before(tmp_path: Path) -> None:
    table = write_table(tmp_path / "train.csv")
    assert run("fit", table, "-t", "size", *INPUTS, "-m", 20, "--json", "-q", "--out", tmp_path / "m").document["model"]
