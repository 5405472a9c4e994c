"""The order of the examples in the gallery."""

from __future__ import annotations

ORDER = (
    "decision_boundaries",
    "quantile_bands",
    "prediction_intervals",
    "robust_regression",
    "raw_table",
    "calibration_curve",
    "rare_class",
    "several_classes",
    "lambda_path",
    "convergence",
    "input_bandwidths",
    "partial_dependence",
    "learning_curve",
    "from_svc",
    "custom_loss",
    "custom_kernel",
    "larger_than_memory",
    "save_and_load",
    "onnx_serving",
)


class InOrder:
    """Sort the examples as ORDER does; others come last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        stem = name.removesuffix(".py")
        return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)

    def __repr__(self) -> str:
        return "InOrder"
