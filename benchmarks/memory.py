"""Print how much a fit of ten million records adds to peak memory, as JSON; runs in its own process.

    python benchmarks/memory.py [default]

Fits rank 10; with "default", the default options, which compare structures.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

N_RECORDS = 10_000_000


def resident_bytes(field: str) -> int:
    """Return VmRSS, the resident memory of this process, or VmHWM, its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def main() -> None:
    truth = dirichlet_rows(15, 10, 10, seed=0)
    # Do not count libraries and compiled kernels.
    tw.fit(draw_records(truth, 20_000, seed=1), rank=10)
    records = drawn(truth)
    # Reset the peak after drawing: from here on VmHWM is that of the fit.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_bytes("VmRSS")
    began = time.perf_counter()
    tw.fit(records, rank=None if "default" in sys.argv else 10)
    print(
        json.dumps(
            {
                "records_bytes": records.pointers.nbytes + records.cells.nbytes,
                "growth_bytes": resident_bytes("VmHWM") - before,
                "seconds": time.perf_counter() - began,
            }
        )
    )


def drawn(truth: tw.JointPMF) -> tw.Records:
    """Return ten million records, drawn in parts because drawing takes scratch memory."""
    pointers = np.empty(N_RECORDS + 1, dtype=np.int64)
    cells = np.empty(int(N_RECORDS * len(truth.schema) * 0.51), dtype=np.uint8)
    pointers[0] = row = place = 0
    for seed in range(50):
        part = draw_records(truth, N_RECORDS // 50, observed=0.5, seed=seed)
        pointers[row + 1 : row + part.n_records + 1] = part.pointers[1:] + place
        cells[place : place + part.n_observed] = part.cells
        row, place = row + part.n_records, place + part.n_observed
    return tw.Records.from_cells(truth.schema, pointers, cells[:place])


if __name__ == "__main__":
    main()
