"""Give two-way tables to mbi (Private-PGM), in an environment of its own (see board/environments.py)."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from board.environments import Environments

# What a process of mbi does: tables in, all cells of the joint and the CPU seconds of the estimate out. Of two settings
# of Adam, 1,000 steps at 0.1 and 5,000 at 0.03, the second was nearer to the records with a mixture of 1,000.
PROGRAM = """
import os, sys, time, warnings
warnings.filterwarnings("ignore")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
import jax
jax.config.update("jax_enable_x64", True)
import mbi, numpy as np, optax
from mbi.extensions.mixture_of_products import MixtureOfProductsEstimator
folder, n_components = sys.argv[1], int(sys.argv[2])
given = np.load(folder + "/tables.npz")
sizes, pairs = given["sizes"].tolist(), given["pairs"].tolist()
measured = [mbi.LinearMeasurement(given[f"t{at}"].ravel(), tuple(map(str, pair))) for at, pair in enumerate(pairs)]
names = tuple(map(str, range(len(sizes))))
estimator = mbi.estimation.MirrorDescent()
if n_components:
    estimator = MixtureOfProductsEstimator(optimizer=optax.adam(0.03), num_components=n_components)
began = time.process_time()
model = estimator.estimate(mbi.Domain(names, tuple(sizes)), measured, iters=5000)
jax.block_until_ready(model)
seconds = time.process_time() - began
np.savez(folder + "/joint.npz", cells=np.asarray(model.project(names).values), seconds=seconds)
"""


def estimated(
    sizes: list[int], tables: Mapping[tuple[int, int], np.ndarray], n_components: int, environments: Environments
) -> tuple[np.ndarray, float]:
    """Return the joint and CPU seconds of a mixture of so many products, or of the graphical model if 0."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = {f"t{at}": table for at, table in enumerate(tables.values())}
        np.savez(Path(folder) / "tables.npz", sizes=np.array(sizes), pairs=np.array(list(tables)), **arrays)
        subprocess.run([environments.python("mbi"), "-c", PROGRAM, folder, str(n_components)], check=True)
        with np.load(Path(folder) / "joint.npz") as found:
            return found["cells"] / found["cells"].sum(), float(found["seconds"])
