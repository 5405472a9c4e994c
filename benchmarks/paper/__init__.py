"""The experiments of the paper: its data sets, settings and results, and runs to compare with them."""

from .experiment import Outcome, Place, notes_on, reproduce, run
from .protocol import PROTOCOLS, PaperBlocks, Plan, plan
from .rows import PaperRows, read
from .tables import MODELS, SETS, Choice, PaperSet, Published, published, settings_of

__all__ = [
    "MODELS",
    "PROTOCOLS",
    "SETS",
    "Choice",
    "Outcome",
    "PaperBlocks",
    "PaperRows",
    "PaperSet",
    "Place",
    "Plan",
    "Published",
    "notes_on",
    "plan",
    "published",
    "read",
    "reproduce",
    "run",
    "settings_of",
]
