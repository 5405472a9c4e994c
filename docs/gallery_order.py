"""The order of the examples in the gallery."""

from __future__ import annotations

ORDER = (
    "raw_table",
    "groups_and_time",
    "text",
    "exact_kernel",
    "quantile_bands",
    "one_class",
    "lambda_path",
    "memory_budget",
    "onnx_serving",
    "explanations",
    "several_classes",
    "rare_class",
    "robust_regression",
    "input_bandwidths",
    "decision_boundaries",
    "convergence",
    "learning_curve",
    "from_svc",
    "custom_loss",
    "custom_kernel",
    "save_and_load",
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
