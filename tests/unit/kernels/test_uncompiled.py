"""With NUMBA_DISABLE_JIT=1 the library works, slowly, and gives the same answers."""

import os
import subprocess
import sys

import numpy as np

PROGRAM = """
import warnings

warnings.simplefilter("error")
import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

records = draw_records(dirichlet_rows(3, 3, 2, seed=1), 60, observed=0.8, seed=1)
for source, solver in ((records, "em"), (tw.count(records), "coupled-nmf")):
    pmf = tw.fit(source, rank=2, starts=1, solver=solver, smoothing=1)
    print(*pmf.log_prob([{"x1": 0, "x2": 1}, {"x3": 2}]))
schema = tw.Schema((tw.Variable("a", (0, 1)), tw.Variable("b", (0, 1))))
print(*tw.JointPMF([0.5, 0.5], [[[1, 0], [0, 1]], [[1, 0], [0, 1]]], schema).log_prob({"a": [0, 0], "b": [0, 1]}))
"""


def numbers(text):
    return np.array([[float(number) for number in line.split()] for line in text.splitlines()])


def test_the_library_runs_uncompiled(capsys):
    exec(PROGRAM, {})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(numbers(done.stdout), numbers(capsys.readouterr().out), rtol=1e-6)
