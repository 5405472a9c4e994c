"""From a fitted model to an ONNX file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from joker.errors import InvalidParameter, MissingPackage, UnknownName
from joker.runtime import VERSION
from joker.runtime.files import AnyPath, replace_file

DTYPES = ("auto", "float32", "float64")
EXAMPLE = "model.onnx"


def to_onnx(model: Any, path: AnyPath, *, dtype: str = "auto") -> None:
    """Write a fitted model to an ONNX file, which ONNX Runtime 1.17 and newer run without joker or torch.

    The number of rows of a prediction is free. The metadata of the file hold the version of joker, the estimator, its
    settings, the names of the columns and the classes.

    Parameters
    ----------
    model : estimator
        A fitted estimator of joker. A kernel of your own is possible with random features only.
    path : str or PathLike
        The file, in a folder that exists.
    dtype : {"auto", "float32", "float64"}, default="auto"
        The type of the computation. ``"auto"`` computes in the type of the model, with inputs and outputs in float32.
        ``"float32"`` and ``"float64"`` are for the computation, the inputs and the outputs.

    Raises
    ------
    InvalidParameter
        If the model has a part that ONNX cannot express; the message names it.
    MissingPackage
        If the package onnx is not installed.

    Notes
    -----
    A kernel machine, or a table model that was fitted on a matrix, has one input ``inputs`` of shape (rows, d). A table
    model that was fitted on columns has one input of shape (rows, 1) for each of them, with the name of the column:
    numbers, with NaN for a missing one; text for categories, where the empty text is a missing value; and for dates the
    days since 1970-01-01 as float64, with NaN for a missing one.

    Regressors have the output ``prediction``. Classifiers have ``label``, ``decision_function`` and, if the model
    predicts them, ``probabilities``. ``KernelOneClass`` has ``label`` and ``decision_function``, and transformers have
    ``transformed``.

    Examples
    --------
    >>> import joker, numpy as np, onnxruntime
    >>> from tempfile import TemporaryDirectory
    >>> X = np.linspace(0, 6, 100, dtype=np.float32)[:, None]
    >>> model = joker.KernelRidge(lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> with TemporaryDirectory() as folder:
    ...     joker.export.to_onnx(model, f"{folder}/sine.onnx")
    ...     session = onnxruntime.InferenceSession(f"{folder}/sine.onnx")
    >>> (prediction,) = session.run(["prediction"], {"inputs": X})
    >>> bool(np.allclose(prediction, model.predict(X), rtol=1e-5))
    True
    """
    if dtype not in DTYPES:
        raise UnknownName.among("dtype", dtype, DTYPES)
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise MissingPackage(
            "an ONNX file needs the package onnx, which is not installed. Run pip install 'joker-kernels[onnx]'."
        ) from error
    exported = _exported(model, dtype)
    with replace_file(path, EXAMPLE) as file:
        file.write(exported.SerializeToString())


def _exported(model: Any, dtype: str) -> Any:
    from joker.estimators.model import FittedModel
    from joker.export import estimators, tables
    from joker.export.operations import Graph
    from joker.tables.estimator import TableEstimator

    if not isinstance(model, TableEstimator | FittedModel):
        raise InvalidParameter(
            f"model must be a fitted estimator of joker; got {type(model).__name__}. Export the last step of a "
            "pipeline, or use skl2onnx for estimators of scikit-learn."
        )
    graph = Graph()
    build = tables.build if isinstance(model, TableEstimator) else estimators.build
    build(graph, model, dtype, np.float64 if dtype == "float64" else np.float32)
    name = type(model).__name__
    return graph.model(name, VERSION, metadata(model), f"{name} of joker {VERSION}")


def metadata(model: Any) -> dict[str, str]:
    """Return what a reader of the file needs to know, as JSON values by name."""
    schema = getattr(model, "schema_", None)
    names = schema.names if schema is not None else getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    facts = {
        "joker_version": VERSION,
        "estimator": type(model).__name__,
        "inputs": model.n_features_in_,
        "columns": None if names is None else [str(name) for name in names],
        "classes": None if classes is None else classes.tolist(),
        "target": getattr(model, "target_name_", None) if schema is None else schema.target,
        **{
            name: np.asarray(value).tolist()
            for name in ("lam", "gap")
            if (value := getattr(model, f"{name}_", None)) is not None
        },
        "bandwidth": np.asarray(model.bandwidth_).tolist() if hasattr(model, "bandwidth_") else None,
        "kernel": str(model.kernel) if hasattr(model, "kernel") else None,
    }
    return {name: json.dumps(value) for name, value in facts.items() if value is not None}
