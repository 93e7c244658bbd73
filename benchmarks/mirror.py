"""Compare two ways to the minimum of CNMF-OPT's objective with the authors' own runs on the same records.

    python benchmarks/mirror.py

Prints the Markdown table of docs/results.md: the mean KL divergence per pair where the paper's mirror descent and the
accelerated EM end, from CNMF-SPA's solution, for two tolerances. Needs the folder of TWOWAY_REFERENCE.
"""

from __future__ import annotations

import json
import time

import numpy as np
from core import folder

import twoway as tw
from twoway.datasets import dirichlet_rows
from twoway.solvers import SPA, CoupledNMF, Evidence, Problem
from twoway.solvers.starts import softened_start

CASES = ("n5_s1e4_a", "n5_s1e4_b", "n15_s1e3")


def main() -> None:
    path = folder("TWOWAY_REFERENCE")
    if path is None:
        raise SystemExit("no reference folder here: set TWOWAY_REFERENCE")
    runs = json.loads((path / "reference.json").read_text())
    print("| records | authors' mirror descent | update, tolerance | ours | passes | CPU seconds |")
    print("|---|---|---|---|---|---|")
    for name in CASES:
        codes, rank = np.load(path / f"{name}.npz")["records"], runs[name]["rank"]
        theirs = runs[name]["opt"]
        columns = [f"x{number}" for number in range(1, codes.shape[1] + 1)]
        schema = dirichlet_rows(len(columns), 10, 2).schema
        records = tw.Records(np.where(codes >= 0, codes, np.nan), schema=schema, columns=columns)
        evidence = Evidence(schema, records=records, threads=1)
        start = softened_start(SPA(first=3).solve(Problem(evidence, rank)).pmf, evidence.sets.shares)
        for update in ("mirror", "em"):
            for tol in (1e-6, 1e-8):
                began = time.process_time()
                solver = CoupledNMF(pair_weights="equal", update=update, tol=tol)
                solution = solver.solve(Problem(evidence, rank, start=start))
                seconds = time.process_time() - began
                print(
                    f"| {name} | {theirs['mean_kl_per_pair']:.6f} in {theirs['seconds']:.0f} s | {update}, {tol:g} | "
                    f"{solution.objective:.6f} | {len(solution.objectives)} | {seconds:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
