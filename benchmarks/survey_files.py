"""A large SPSS file: time and memory to stream it to a model.

    python benchmarks/survey_files.py [MEGABYTES]

Writes a .sav file of about so many megabytes (500) into a temporary folder: 60 questions with value labels and
user-missing codes. Then fits a model to it in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat

N_COLUMNS = 60
FIT = """
import resource, time
import twoway as tw
from twoway.data.files.file_set import find_files
start = time.perf_counter()
files = find_files({path!r})
records = tw.FileRecords(files)
pmf = tw.fit(records, rank=2, solver="em", smoothing=1.0)
print(f"{{'streamed' if files.is_large() else 'not large, yet streamed'}}: {{records.n_records:,}} records, "
      f"{{time.perf_counter() - start:.0f}} s, P(q0 <= rarely) = {{tw.ask(pmf, 'P(q0 <= rarely)'):.4f}}")
"""


def write(path: Path, megabytes: int) -> float:
    """Write a file, and return the share of never and rarely among the answers to the first question."""
    n_rows = megabytes * 10**6 // (8 * N_COLUMNS)
    rng = np.random.default_rng(0)
    kind = rng.random(n_rows) < 0.4
    codes = np.array([1.0, 2.0, 3.0, 4.0, 8.0, 97.0, np.nan])
    shares = np.array([[0.4, 0.3, 0.1, 0.05, 0.05, 0.05, 0.05], [0.05, 0.1, 0.3, 0.4, 0.05, 0.05, 0.05]])
    bounds = shares.cumsum(axis=1)[kind.astype(int), :-1]
    frame = pd.DataFrame({f"q{n}": codes[(rng.random(n_rows)[:, None] > bounds).sum(axis=1)] for n in range(N_COLUMNS)})
    labels = {1: "never", 2: "rarely", 3: "often", 4: "always", 8: "don't know", 97: "refused"}
    pyreadstat.write_sav(
        frame,
        str(path),
        variable_value_labels=dict.fromkeys(frame, labels),
        missing_ranges={name: [8, {"lo": 90, "hi": 99}] for name in frame},
        variable_measure=dict.fromkeys(frame, "ordinal"),
    )
    answered = frame["q0"][frame["q0"] <= 4]
    return float((answered <= 2).mean())


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sav"
        start = time.perf_counter()
        share = write(path, megabytes)
        print(f"{path.stat().st_size / 1e6:.0f} MB written in {time.perf_counter() - start:.0f} s; P = {share:.4f}")
        subprocess.run([sys.executable, "-c", FIT.format(path=str(path))], check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(f"most memory of the process that fits: {peak:.2f} GB")


if __name__ == "__main__":
    main()
