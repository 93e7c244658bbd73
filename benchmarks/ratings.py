"""Measure the rating predictor, and print a Markdown table.

    python benchmarks/ratings.py           everything
    python benchmarks/ratings.py size      425,000 users × 29 items
    python benchmarks/ratings.py error     RMSE on ml-latest-small beside averages and BMF

The ratings come from the folder in TWOWAY_DATA. `python benchmarks/peers.py --section ratings` compares the predictor
with a tuned, averaged BMF with fitted noise.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from memory import resident_bytes

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.paper.results import summarize_results
from twoway.paper.run import plan_run
from twoway.paper.tables import find_paper_tables

ROOT = Path(__file__).resolve().parent.parent
N_USERS, N_ITEMS, RANK = 425_000, 29, 10
SEEDS = range(10)

Row = tuple[str, str, str, bool]
"""What was measured, the target, the result, whether it was reached."""


def size() -> list[Row]:
    """Time and memory of a fit, in its own process."""
    done = subprocess.run([sys.executable, __file__, "fit"], check=True, capture_output=True, text=True)
    seconds, peak, n_ratings = (float(number) for number in done.stdout.split())
    what = f"`RatingPredictor(rank={RANK})`, {N_USERS:,} users × {N_ITEMS} items, {n_ratings / 1e6:.1f} M ratings"
    return [
        (f"{what}: fit, all cores", "under 60 s", f"{seconds:.1f} s", seconds < 60),
        (
            f"{what}: peak memory of the process, table and libraries included",
            "under 1 GB",
            f"{peak / 1e9:.2f} GB",
            peak < 1e9,
        ),
    ]


def fit() -> None:
    """Print seconds and peak bytes of the fit, and the number of ratings."""
    frame = pd.concat([drawn(seed) for seed in range(25)], ignore_index=True)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak after drawing
    began = time.perf_counter()
    tw.RatingPredictor(rank=RANK).fit(frame)
    print(time.perf_counter() - began, resident_bytes("VmHWM"), len(frame))


def drawn(seed: int) -> pd.DataFrame:
    """Return the ratings of a 25th of the users, as a long table of small types."""
    n_users = N_USERS // 25
    codes = draw_records(dirichlet_rows(N_ITEMS, 5, RANK), n_users, observed=0.4, seed=seed).codes()
    users, items = np.nonzero(codes >= 0)
    return pd.DataFrame(
        {
            "user": (users + seed * n_users).astype(np.int32),
            "item": items.astype(np.int32),
            "rating": (codes[users, items] + 1).astype(np.float32),
        }
    )


def error() -> list[Row]:
    """RMSE of hidden ratings, 20 trials, as `twoway reproduce` computes it."""
    if "TWOWAY_DATA" not in os.environ:
        sys.exit("set TWOWAY_DATA to the folder of the ratings")
    others = ["Global Average", "User Average", "Movie Average", "BMF"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        names = [f"movielens-{films}" for films in ("action", "animation", "romance")]
        todo = plan_run(find_paper_tables(names), "paper", Path(folder), methods=[*others, "auto"])
        for experiment in todo.run():
            metric = summarize_results(experiment, "paper", Path(folder))["metrics"][0]
            means = {row["method"]: row["cells"][0]["mean"] for row in metric["rows"]}
            ours = means["auto"]
            listed = ", ".join(f"{name} {means[name]:.4f}" for name in others)
            rows.append(
                (
                    f"RMSE of `RatingPredictor()` on ml-latest-small, {experiment.paper[0].name}, mean of 20 trials",
                    "below every average, no worse than BMF",
                    f"{ours:.4f} ({listed})",
                    ours < min(means[name] for name in others[:3]) and ours <= means["BMF"],
                )
            )
    return rows


def main() -> None:
    sections = {"size": size, "error": error}
    if sys.argv[1:] == ["fit"]:
        fit()
        return
    print("| section | what | target | measured | |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or sections:
        for what, target, measured, reached in sections[name]():
            print(f"| `{name}` | {what} | {target} | {measured} | {'✓' if reached else '✗'} |", flush=True)


if __name__ == "__main__":
    main()
