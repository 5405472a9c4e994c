"""The page on serving: its code runs, and its server answers as joker does."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT

PAGE = ROOT / "docs" / "serving.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS = 60  # until a server answers

pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def blocks() -> tuple[list[str], str]:
    """The blocks of the page, and the one of the server."""
    found = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (server,) = (block for block in found if "FastAPI(" in block)
    return [block for block in found if block != server], server


def run_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks()[0]:
        exec(compile(block, PAGE.name, "exec"), names)
    return names


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(tmp_path, monkeypatch)
    assert (tmp_path / "MODEL.md").read_text(encoding="utf-8").startswith("# Model card: KernelLogistic")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any]]:
    """The address of a server on the loopback interface, and the model that it serves."""
    pytest.importorskip("fastapi", reason="needs fastapi")
    pytest.importorskip("uvicorn", reason="needs uvicorn")
    model = run_page(tmp_path, monkeypatch)["model"]
    (tmp_path / "serve.py").write_text(blocks()[1], encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "serve:app", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(address, process)
        yield address, model
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)
        assert process.stderr is not None
        process.stderr.close()


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(10 * SECONDS):
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            urllib.request.urlopen(f"{address}/model", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"no answer within {SECONDS} s")


def post(address: str, rows: Any) -> dict[str, Any]:
    body = json.dumps({"rows": rows}).encode()
    request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


@pytest.mark.slow
def test_a_real_server_answers_as_joker_does(server: tuple[str, Any]) -> None:
    address, model = server
    x = np.random.default_rng(5).uniform(-3, 3, (200, 2)).astype(np.float32)
    for rows in (x[:1], x):
        answer = post(address, rows.tolist())
        assert answer["label"] == model.predict(rows).tolist()
        assert np.abs(np.array(answer["probabilities"]) - model.predict_proba(rows)).max() < 1e-5
    with urllib.request.urlopen(f"{address}/model", timeout=30) as facts:
        assert json.load(facts)["classes"] == ["above", "below"]
    for wrong in ([], [[1.0]], [["x", "y"]]):
        with pytest.raises(urllib.error.HTTPError, match="422"):
            post(address, wrong)
