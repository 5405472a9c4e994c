"""Row stores: a table in one file, in random order, from which models are trained without loading it."""

from joker.data.store.convert import convert
from joker.data.store.shared import open_shared
from joker.data.store.store import Labels, Store, StoreRows, open_store

__all__ = ["Labels", "Store", "StoreRows", "convert", "open_shared", "open_store"]
