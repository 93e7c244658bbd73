"""Print how much a fit of ten million records adds to peak memory, as JSON; a process of its own, for a clean count."""

from __future__ import annotations

import json
import resource
import time

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records

N_RECORDS = 10_000_000


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    truth = dirichlet_rows(15, 10, 10, seed=0)
    # Libraries and compiled kernels are not the fit's.
    tw.fit(draw_records(truth, 20_000, seed=1), rank=10)
    # Drawing takes scratch memory of its own: draw in parts, so that the peak before the fit is the records.
    records = joined([draw_records(truth, N_RECORDS // 50, seed=seed) for seed in range(50)])
    before = peak_bytes()
    began = time.perf_counter()
    tw.fit(records, rank=10)
    print(
        json.dumps(
            {
                "records_bytes": records.pointers.nbytes + records.cells.nbytes,
                "growth_bytes": peak_bytes() - before,
                "seconds": time.perf_counter() - began,
            }
        )
    )


def joined(parts: list[tw.Records]) -> tw.Records:
    import numpy as np

    pointers = np.empty(sum(part.n_records for part in parts) + 1, dtype=np.int64)
    cells = np.empty(sum(part.n_observed for part in parts), dtype=parts[0].cells.dtype)
    pointers[0] = row = place = 0
    while parts:
        part = parts.pop(0)
        pointers[row + 1 : row + part.n_records + 1] = part.pointers[1:] + place
        cells[place : place + part.n_observed] = part.cells
        row, place = row + part.n_records, place + part.n_observed
    return tw.Records.from_cells(part.schema, pointers, cells)


if __name__ == "__main__":
    main()
