"""Cases for `diagnose`, for tests and a benchmark: what two-way tables can and cannot determine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.schema import Schema, Variable
from twoway.tables.tables import Tables


@dataclass(frozen=True)
class VerdictCase:
    """Evidence to diagnose, a rank, and the truth."""

    make: Callable[[], Any]
    rank: int | None
    truth: str


def parity(n_records: int, *, seed: int = 0, n_values: int = 2, order: str = "abc", extra: int = 0) -> pd.DataFrame:
    """Two fair coins (or dice with n values) and their sum modulo n, plus independent columns."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, n_values, (2, n_records))
    columns = dict(zip(order, (a, b, (a + b) % n_values), strict=True))
    columns |= {f"e{place}": random.integers(0, 3, n_records) for place in range(extra)}
    return pd.DataFrame({name: columns[name] for name in sorted(columns)})


def exact_parity() -> pd.DataFrame:
    """Each of the four rows exactly a thousand times."""
    a, b = np.tile([0, 0, 1, 1], 1000), np.tile([0, 1, 0, 1], 1000)
    return pd.DataFrame({"a": a, "b": b, "c": a ^ b})


def identical(n_columns: int = 3, n_values: int = 2) -> pd.DataFrame:
    column = np.random.default_rng(0).integers(0, n_values, 1000)
    return pd.DataFrame({f"c{place}": column for place in range(n_columns)})


def copied(name: str, *, seed: int = 0, n_categories: int = 6, rank: int = 4) -> pd.DataFrame:
    """Records of a model of some rank, and a copy of one of their columns, which no component explains."""
    frame = dirichlet_rows(5, n_categories, rank, seed=seed).sample(20_000, seed=seed)
    return frame.assign(copy=frame[name])


def sampled(
    rank: int, n_records: int, *, n_variables: int = 6, n_categories: int = 4, seed: int = 0, observed: float = 0.5
) -> Any:
    truth = dirichlet_rows(n_variables, n_categories, rank, seed=seed)
    return draw_records(truth, n_records, observed=observed, seed=seed)


def under_connected(*names: str, n_categories: int = 3, seed: int = 0) -> Tables:
    """Variables whose only table is with a binary variable."""
    frame = dirichlet_rows(6, n_categories, 3, seed=seed).sample(50_000, seed=seed)
    tables = tw.count(frame.assign(x3=(frame["x3"] > 0).astype(int)))
    return tables.select([pair for pair in tables.pairs if not set(pair) & set(names) or "x3" in pair])


def contradicting(n_records: float = 1000.0, others: int = 0) -> Tables:
    """P(a ≠ b) = 0.2, P(b ≠ c) = 0.1 and P(a ≠ c) = 0.8, where at most 0.3 is possible, plus independent variables."""

    def table(different: float) -> list[float]:
        return [0.5 * (1.0 - different), 0.5 * different, 0.5 * different, 0.5 * (1.0 - different)]

    names = ["a", "b", "c", *(f"e{place}" for place in range(others))]
    sizes = [2, 2, 2, *[6] * others]
    different = {(0, 1): 0.2, (0, 2): 0.8, (1, 2): 0.1}
    sets = [(j, k) for j in range(len(names)) for k in range(j + 1, len(names))]
    flat = [table(different[one]) if one in different else [1.0 / (sizes[one[0]] * sizes[one[1]])] * (
        sizes[one[0]] * sizes[one[1]]) for one in sets]  # fmt: skip
    schema = Schema(tuple(Variable(name, tuple(range(size))) for name, size in zip(names, sizes, strict=True)))
    return Tables(schema, np.array(sets, dtype=np.int32), n_records * np.concatenate(flat))


def binary(n_variables: int, rank: int, seed: int = 0) -> tw.JointPMF:
    return dirichlet_rows(n_variables, 2, rank, seed=seed)


NOT_KNOWN = {
    "XOR of two fair coins, tables of 4,000 records, rank chosen": VerdictCase(
        lambda: tw.count(parity(4000)), None, "another joint with the same tables is 0.5 away"
    ),
    "the same, each of the four rows exactly 1,000 times, tables": VerdictCase(
        lambda: tw.count(exact_parity()), None, "another joint with the same tables is 0.5 away"
    ),
    "the same, each of the four rows exactly 1,000 times, records": VerdictCase(
        exact_parity, None, "another joint with the same tables is 0.5 away"
    ),
    "three identical columns, rank 1": VerdictCase(lambda: tw.count(identical()), 1, "the tables contradict rank 1"),
    "XOR, records": VerdictCase(lambda: parity(4000), None, "the records move the joint by 0.5"),
    "a copied variable, rank 4": VerdictCase(
        lambda: tw.count(copied("x1")), 4, "more than 4 components are visible, and no table fits"
    ),
    "rank 2 asked, truth 4, 200,000 records": VerdictCase(
        lambda: tw.count(sampled(4, 200_000)), 2, "4 components are visible"
    ),
    "x4 in a table with one binary variable only, rank 3": VerdictCase(
        lambda: under_connected("x4"), 3, "such a table shows 2 components at most"
    ),
    "P(a≠b) = .2, P(b≠c) = .1, P(a≠c) = .8": VerdictCase(contradicting, None, "no joint has these tables"),
    "4 binary variables, a model of rank 5": VerdictCase(
        lambda: binary(4, 5, seed=1), None, "models with the same tables are 0.4 away"
    ),
}
"""Rows of the table in docs/how-sure.md that `diagnose` must not call recoverable."""

MORE_NOT_KNOWN = {
    **{
        f"XOR, tables, rank {rank}": VerdictCase(lambda: tw.count(parity(4000)), rank, "the same") for rank in (2, 3, 4)
    },
    **{f"XOR, records, rank {rank}": VerdictCase(lambda: parity(4000), rank, "the same") for rank in (1, 2, 4)},
    **{
        f"XOR exactly, tables, rank {rank}": VerdictCase(lambda: tw.count(exact_parity()), rank, "the same")
        for rank in (2, 4)
    },
    "XOR, columns in another order": VerdictCase(lambda: tw.count(parity(4000, order="cab")), 4, "the same"),
    "XOR, few records": VerdictCase(lambda: tw.count(parity(300, seed=3)), None, "the same"),
    "XOR beside independent columns, tables": VerdictCase(lambda: tw.count(parity(4000, extra=2)), None, "the same"),
    "XOR beside independent columns, records": VerdictCase(lambda: parity(4000, extra=2), None, "the same"),
    "XOR beside many independent columns, tables": VerdictCase(
        lambda: tw.count(parity(4000, extra=9)), None, "the same"
    ),
    "a sum modulo 3, tables": VerdictCase(lambda: tw.count(parity(9000, n_values=3)), None, "0.67 away"),
    "a sum modulo 3, records": VerdictCase(lambda: parity(9000, n_values=3), 1, "0.67 away"),
    "identical columns, records, rank 1": VerdictCase(identical, 1, "the records contradict rank 1"),
    "five identical ternary columns, rank 2": VerdictCase(lambda: tw.count(identical(5, 3)), 2, "there are 3"),
    "another copied variable, records": VerdictCase(lambda: copied("x3", seed=1), 4, "more are visible"),
    "a copied ternary variable, rank 2": VerdictCase(
        lambda: tw.count(copied("x2", n_categories=3, rank=2)), 2, "more are visible"
    ),
    **{
        f"rank {rank} asked, truth {true}": VerdictCase(
            lambda true=true: tw.count(sampled(true, 100_000, n_variables=8, seed=true)), rank, f"{true} are visible"
        )
        for true, rank in ((3, 1), (3, 2), (5, 3), (6, 5))
    },
    "x1 in a table with one binary variable only": VerdictCase(lambda: under_connected("x1", seed=1), 3, "impossible"),
    "two such variables": VerdictCase(lambda: under_connected("x5", "x6", n_categories=4), 3, "impossible"),
    "all tables with one binary variable": VerdictCase(
        lambda: under_connected("x1", "x2", "x4", "x5", "x6"), 3, "impossible"
    ),
    **{
        f"tables that contradict each other, rank {rank}": VerdictCase(contradicting, rank, "no joint")
        for rank in (1, 2, 4)
    },
    "tables that contradict each other among others": VerdictCase(lambda: contradicting(others=4), 2, "no joint"),
    "4 binary variables, data of rank 5": VerdictCase(
        lambda: tw.count(binary(4, 5).sample(20_000, seed=1)), 5, "far models fit"
    ),
    **{
        f"{n} binary variables, a model of rank {rank}, seed {seed}": VerdictCase(
            lambda n=n, rank=rank, seed=seed: binary(n, rank, seed), None, "far models have the same tables"
        )
        for n, rank, seed in ((4, 5, 0), (5, 6, 2), (6, 6, 3))
    },
}
"""Variants: other variables, orders, sizes, ranks and kinds of evidence."""

KNOWN = {
    "three identical columns, rank 2": VerdictCase(lambda: tw.count(identical()), 2, "zeros leave no other model"),
    "four identical columns of 3 values, rank 3": VerdictCase(
        lambda: tw.count(identical(4, 3)), 3, "zeros leave no other model"
    ),
    "rank 2 as asked, 6 variables, 20,000 records": VerdictCase(
        lambda: tw.count(sampled(2, 20_000, seed=2)), 2, "the rank is right"
    ),
    "rank 3 as asked, 8 variables of 5, 20,000 records": VerdictCase(
        lambda: tw.count(sampled(3, 20_000, n_variables=8, n_categories=5, seed=1)), 3, "the rank is right"
    ),
    "the same, records, rank chosen": VerdictCase(
        lambda: sampled(3, 20_000, n_variables=8, n_categories=5, seed=1), None, "the rank is right"
    ),
    "rank 6 as asked, 10 variables of 6, 30,000 records": VerdictCase(
        lambda: tw.count(sampled(6, 30_000, n_variables=10, n_categories=6)), 6, "the rank is right"
    ),
    "independent columns, records": VerdictCase(
        lambda: sampled(1, 4000, n_categories=3), None, "three-way tables agree"
    ),
}
"""Cases that must stay recoverable, with or without a condition."""
