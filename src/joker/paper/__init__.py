"""The experiments of the paper: its data sets, settings and results, and runs to compare with them."""

from joker.paper.experiment import Place, reproduce, run
from joker.paper.outcome import Outcome, notes_on
from joker.paper.protocol import PROTOCOLS, Plan, plan
from joker.paper.rows import PaperRows, read
from joker.paper.table import MODELS, SETS, Choice, PaperSet, Published, published, settings_of

__all__ = [
    "MODELS",
    "PROTOCOLS",
    "SETS",
    "Choice",
    "Outcome",
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
