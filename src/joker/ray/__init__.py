"""Fits and searches on a cluster of Ray.

``pip install 'joker-kernels[ray]'`` installs Ray. Use ``import joker.ray``; ``import joker`` does not import Ray.
"""

from joker.errors import MissingPackage

try:
    import ray.data
    import ray.train.torch  # noqa: F401  the packages that the modules below import
except ImportError as error:
    raise MissingPackage(
        f"joker.ray needs Ray Train, which cannot be imported ({error}). Use pip install 'joker-kernels[ray]'."
    ) from error

from joker.ray.training_job import fit
from joker.ray.trials import tune

__all__ = ["fit", "tune"]
