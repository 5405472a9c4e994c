"""A graph of ONNX operations that is built one node at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET, ML_OPSET, IR_VERSION = 18, 3, 8  # ONNX Runtime 1.17 reads up to opset 20 and IR version 9
Array = NDArray[Any]
PREFIX = "joker/"  # of inner names, so that they differ from those of columns
BATCH = "rows"  # the name of the dimension that may have any size


class Graph:
    """Nodes, constants, inputs and outputs; a value of the graph is the name of its tensor."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._count = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all constants."""
        return sum(len(constant.raw_data) for constant in self.constants)

    def name(self, stem: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"{PREFIX}{stem}_{self._count}"

    def op(self, kind: str, *arguments: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        """Add a node, and return its last output."""
        names = [self.name(kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, arguments, names, domain=domain, **attributes))
        return names[0]

    def constant(self, values: Any, stem: str = "constant") -> str:
        """Add a constant array, of numbers or of text."""
        array = np.asarray(values)
        name = self.name(stem)
        if array.dtype.kind in "UO":
            texts = [str(value).encode() for value in array.ravel()]
            self.constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, texts))
        else:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """Return a value in another type."""
        return self.op("Cast", value, to=element_type(dtype))

    def cosine(self, angle: str, dtype: Any) -> str:
        """Return the cosine; in float64 as a sine, because ONNX Runtime 1.17 has no cosine of that type."""
        if np.dtype(dtype) == np.float32:
            return self.op("Cos", angle)
        return self.op("Sin", self.op("Add", angle, self.constant(np.array(np.pi / 2, dtype))))

    def add_input(self, name: str, dtype: Any, width: int) -> str:
        """Add an input of ``width`` columns and any number of rows."""
        self.inputs.append(helper.make_tensor_value_info(name, element_type(dtype), [BATCH, width]))
        return name

    def add_output(self, name: str, value: str, dtype: Any, shape: Sequence[int]) -> None:
        """Make a value an output, with any number of rows; ``shape`` is the shape of one row."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, element_type(dtype), [BATCH, *shape]))

    def model(self, title: str, version: str, metadata: dict[str, str], text: str) -> Any:
        """Return the checked model."""
        graph = helper.make_graph(self.nodes, title, self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(
            graph, producer_name="joker", producer_version=version, opset_imports=opsets, doc_string=text
        )
        model.ir_version = IR_VERSION
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model


def element_type(dtype: Any) -> int:
    """The number of a NumPy type in ONNX; text is STRING."""
    kind = np.dtype(dtype)
    return int(TensorProto.STRING if kind.kind in "UO" else helper.np_dtype_to_tensor_dtype(kind))
