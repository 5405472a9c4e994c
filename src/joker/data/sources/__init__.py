"""Tables on disk and in memory, read batch by batch."""

from joker.data.sources.base import Batch, Source
from joker.data.sources.in_memory import as_source
from joker.data.sources.open import open_source
from joker.data.sources.validation import check_values

__all__ = ["Batch", "Source", "as_source", "check_values", "open_source"]
