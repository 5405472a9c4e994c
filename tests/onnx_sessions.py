"""ONNX files in ONNX Runtime, with one thread: the threads of a session would wait by computing."""

from pathlib import Path
from typing import Any


def session_of(path: Path) -> Any:
    """Return a session that runs a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
