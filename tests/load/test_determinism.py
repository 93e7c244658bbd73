"""The same seed gives the same bytes, for any threads, libraries' threads, processes, hash seeds and row orders."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

PROGRAM = """
import hashlib, sys
from pathlib import Path
import twoway as tw
from twoway.data import records
from twoway.datasets import dirichlet_rows, draw_records

records._BLOCK_CELLS = 2**11  # several blocks of so few records
source = draw_records(dirichlet_rows(9, 5, 4, seed=1), 6000, observed=0.6, seed=2)
for solver in sys.argv[2].split(","):
    pmf = tw.fit(source, rank=4, solver=solver, seed=5, threads=int(sys.argv[1]))
    pmf.save("x.twoway")
    print(solver, hashlib.sha256(Path("x.twoway").read_bytes()).hexdigest())
tw.count(source, threads=int(sys.argv[1])).save("x.tables")
print("tables", hashlib.sha256(Path("x.tables").read_bytes()).hexdigest())
pmf.sample(100, seed=1).to_csv("x.csv")
print("sample", hashlib.sha256(Path("x.csv").read_bytes()).hexdigest())
"""
SURROUNDINGS = {
    "one thread": (1, {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "1"}),
    "two threads": (2, {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "2"}),
    "more of ours": (5, {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "3"}),
    "more of theirs": (1, {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4", "PYTHONHASHSEED": "4"}),
}


def bytes_in(surroundings, folder, solvers):
    threads, variables = SURROUNDINGS[surroundings]
    environment = {**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parents[1]), **variables}
    command = [sys.executable, "-c", PROGRAM, str(threads), solvers]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_threads_and_processes(tmp_path):
    first = bytes_in("one thread", tmp_path, "spa+em")
    assert first.count("\n") == 3
    assert bytes_in("two threads", tmp_path, "spa+em") == first


@pytest.mark.slow
@pytest.mark.parametrize("surroundings", ["two threads", "more of ours", "more of theirs"])
def test_every_solver(tmp_path, surroundings):
    solvers = "auto,em,spa,coupled-nmf,ctd,mle-ad"
    assert bytes_in(surroundings, tmp_path, solvers) == bytes_in("one thread", tmp_path, solvers)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_reordered_rows_and_row_groups(tmp_path):
    frame = dirichlet_rows(5, 3, 2, seed=4).sample(4000, seed=0)
    rng = np.random.default_rng(0)
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    mixed = frame.iloc[rng.permutation(len(frame))]
    sources = []
    for name, rows, group in (("a", frame, 4000), ("b", frame, 37), ("c", mixed, 1000), ("d", mixed, 4000)):
        pq.write_table(
            pa.Table.from_pandas(rows, preserve_index=False), tmp_path / f"{name}.parquet", row_group_size=group
        )
        sources.append(tmp_path / f"{name}.parquet")
    models, tables = [], []
    for source in sources:
        tw.count(source).save(tmp_path / "x.tables")
        tables.append(digest(tmp_path / "x.tables"))
        models.append(tw.fit(source, rank=2, seed=0, solver="spa+em"))
    assert len(set(tables)) == 1
    for model in models[1:]:
        np.testing.assert_allclose(model.weights, models[0].weights, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.stacked, models[0].stacked, rtol=0, atol=1e-9)


def test_weights_in_any_order_count_the_same(tmp_path):
    """Sums of floats depend on their order; those of counts must not."""
    records = draw_records(dirichlet_rows(4, 3, 2), 3000, observed=0.8)
    rng = np.random.default_rng(1)
    weights = rng.lognormal(0, 6, records.n_records)
    order = rng.permutation(records.n_records)
    tw.Tables.count(records.reweighted(weights)).save(tmp_path / "a")
    tw.Tables.count(records.take(order).reweighted(weights[order])).save(tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
