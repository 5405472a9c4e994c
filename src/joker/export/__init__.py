"""Fitted models in files that other programs run."""

from joker.export.onnx_file import to_onnx

__all__ = ["to_onnx"]
