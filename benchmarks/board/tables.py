"""Tables only: a joint from half of its two-way tables, beside the records behind them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import published
from peer_mbi import estimated

from board.environments import Environments
from board.store import Result

DATA = ("adult", "election", "bfi")
# The number of products; 0 is the graphical model.
MBI = {"mbi, graphical model": 0, "mbi, 100 products": 100, "mbi, 1,000 products": 1000}
METHODS = ("IPF", *MBI)


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Fit the tables of a random half of the pairs, rounded and with suppressed cells."""
    fits: dict[str, published.Method] = {
        "twoway": published.fitted,
        "IPF": published.ipf,
        **{name: partial(of_mbi, n_components=n, environments=environments) for name, n in MBI.items()},
    }
    frame, random = published.RECORDS[data](), np.random.default_rng(seed)
    truth = published.Joint.of_records(frame)
    tables = published.published(frame, published.published_pairs(frame.columns, random), random)
    for method in methods:
        began = time.process_time()
        model = fits[method](truth.categories, tables)
        seconds = getattr(model, "seconds", None) or time.process_time() - began
        *_, triples, pairs = published.distances(model, truth, tables)
        yield Result("tables", data, case, method, seed, {"triples": triples, "pairs not published": pairs}, seconds)


def of_mbi(
    categories: Mapping[str, list[str]], tables: published.Crosstabs, n_components: int, environments: Environments
) -> published.Joint:
    names, sizes = list(categories), [len(own) for own in categories.values()]
    arrays = {(names.index(one), names.index(other)): table.to_numpy() for (one, other), table in tables.items()}
    return published.Joint(categories, *estimated(sizes, arrays, n_components, environments))
