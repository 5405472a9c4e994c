"""A row store that an earlier version has written has the same rows and labels."""

import numpy as np
from earlier_files import LABELS, STORE, X

from joker.data import open_store


def test_a_store_of_an_earlier_version_is_read() -> None:
    store = open_store(STORE)
    rows = store.x[slice(0, len(X))].numpy()
    order = [int(np.flatnonzero((X.astype(np.float32) == row).all(1))[0]) for row in rows]
    assert sorted(order) == list(range(len(X)))
    assert store.classes is not None
    labels = store.labels
    assert labels.classes[labels.codes].tolist() == LABELS[order].tolist()
