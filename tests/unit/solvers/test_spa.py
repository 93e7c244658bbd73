"""SPA: its objective, its limits and its splits."""

import pytest

from twoway.data.records import Records
from twoway.datasets import dirichlet_rows
from twoway.errors import DataError
from twoway.fitting.fit import fit
from twoway.solvers.evidence import PairMatrix
from twoway.solvers.spa import SPA
from twoway.tables.tables import Tables


def test_spa_objective_and_limits():
    report = fit(dirichlet_rows(6, 4, 2, seed=1).sample(300, seed=0), rank=2, solver="spa").report
    assert report.objective_name.startswith("mean Kullback-Leibler divergence")
    many = {"a": range(15_000), "b": range(15_000)}
    with pytest.raises(DataError, match=r"'spa' .*30000.*'coupled-nmf'"):
        fit(many, rank=1, solver="spa")


@pytest.mark.parametrize("first", [0, 2.5, "a"])
def test_the_first_group_of_spa_is_an_integer(first):
    with pytest.raises(DataError, match="first must be"):
        fit(dirichlet_rows(4, 3, 2, seed=1).sample(50, seed=0), rank=2, solver=SPA(first=first))


def test_spa_splits_the_variables_into_halves_first():
    tables = Tables.count(Records(dirichlet_rows(6, 4, 2, seed=1).sample(300, seed=0)))
    first, *others = SPA(n_splits=4).splits(PairMatrix.of(tables), 2, (0, 0))
    assert len(others) == 3
    assert first.tolist() == [True] * 3 + [False] * 3
    assert len({split.tobytes() for split in (first, *others)}) == 4


def test_the_rank_that_pairs_can_carry_at_most():
    pairs = PairMatrix.of(Tables.count(Records({"a": [0, 1, 1], "b": [0, 1, 0]})))
    assert pairs.can_carry(2)
    assert not pairs.can_carry(3)
