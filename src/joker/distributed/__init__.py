"""Several processes, on one machine or on many, that fit one model together.

This is the only package that uses ``torch.distributed``.
"""

from joker.distributed.group import ALONE, Group, TorchGroup, activate, current, group

__all__ = ["ALONE", "Group", "TorchGroup", "activate", "current", "group"]
