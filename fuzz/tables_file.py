"""Tables files: refused with a reason, or tables that add, print, and are saved to the same bytes each time."""

from __future__ import annotations

import numpy as np
from files import again, write_file

from twoway.errors import FileFormatError
from twoway.storage import container
from twoway.tables.tables import Tables


def check(data: bytes) -> None:
    """Raise where a file is neither refused nor sound."""
    path = write_file(data)
    container.container_kind(path)
    try:
        tables = Tables.load(path)
    except FileFormatError as error:
        assert str(error).isprintable()
        return
    tables.save(again(path))
    first = again(path).read_bytes()
    loaded = Tables.load(again(path))
    assert loaded == tables
    loaded.save(again(path))
    assert again(path).read_bytes() == first
    assert repr(tables).isprintable()
    with np.errstate(over="ignore"):
        summed = tables.flat + tables.flat
    if np.isfinite(summed).all() and np.isfinite(tables.weights * 2).all():
        np.testing.assert_array_equal((tables + tables).flat, summed)
    assert tables.as_records().n_records == np.count_nonzero(tables.flat)
    for one in tables:
        assert (one.array >= 0).all()
        assert abs(one.array.sum() - 1) < 1e-6
        repr(one)
