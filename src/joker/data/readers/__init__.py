"""Tables on disk and in memory, read batch by batch."""

from joker.data.readers.open import as_source, open_source
from joker.data.readers.source import Batch, Source, check_values

__all__ = ["Batch", "Source", "as_source", "check_values", "open_source"]
