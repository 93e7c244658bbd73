"""Measure the rating predictor, and print a Markdown table.

    python benchmarks/ratings.py           everything, more than an hour
    python benchmarks/ratings.py size      425,000 users × 29 items
    python benchmarks/ratings.py error     RMSE on ml-latest-small beside averages and BMF
    python benchmarks/ratings.py tuned     RMSE and log-loss beside a tuned, averaged BMF with fitted noise, an hour

The ratings come from the folder in TWOWAY_DATA.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import peer_bmf
from memory import resident_bytes

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records, movielens
from twoway.estimators.ratings.table import read_ratings
from twoway.paper.recommendation import FILMS, Hidden, Recommendation, split_ratings
from twoway.paper.results import summarize_results
from twoway.paper.run import plan_run
from twoway.paper.tables import find_tables

ROOT = Path(__file__).resolve().parent.parent
N_USERS, N_ITEMS, RANK = 425_000, 29, 10
SEEDS = range(10)
LEAST_RATINGS, MANY_RATINGS = 20, 20_000
# As many fits as are averaged in `RatingPredictor()`: of kinds of users, and of vectors.
N_FITS = 10 + 12

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
        todo = plan_run(find_tables(names), "paper", Path(folder), methods=[*others, "auto"])
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


def tuned() -> Iterator[Row]:
    """RMSE and log-loss of hidden ratings, beside a tuned and averaged factorisation with fitted noise."""
    for name in (*FILMS, "all"):
        options, scores = None, []
        for seed in SEEDS:
            data = hidden_ratings(name, seed)
            options = tuned_options(data, options)
            scores.append(compare(data, options))
            print(name, seed, options, *scores[-1], file=sys.stderr, flush=True)
        rmse, peer_rmse, loss, *peer_losses = np.array(scores).T
        films = f"films with at least {LEAST_RATINGS} ratings" if name == "all" else name.capitalize()
        what = f"`RatingPredictor()` on ml-latest-small, {films}, {len(SEEDS)} splits"
        most = 0.01 if name == "all" else 0.0
        target = f"at most {most:g} above the tuned, averaged BMF"
        found = f"{shown(rmse)}; BMF {shown(peer_rmse)}; difference {shown(rmse - peer_rmse)}"
        yield f"RMSE of {what}", target, found, np.mean(rmse - peer_rmse) <= most
        found = f"{shown(loss)}; BMF, normal noise {shown(peer_losses[0])}; ordinal noise {shown(peer_losses[1])}"
        is_lower = all(np.mean(loss - peer) < 0 for peer in peer_losses)
        yield f"log-loss of {what}", "below BMF with either fitted noise", found, is_lower


def hidden_ratings(name: str, seed: int) -> Hidden:
    """Return the ratings of a set of films, split 50:20:30."""
    if name != "all":
        return Recommendation(name).data(seed)
    ratings = movielens("ml-latest-small")
    n_rated = ratings.groupby("item")["rating"].transform("size")
    return split_ratings(read_ratings(ratings[n_rated >= LEAST_RATINGS], ("user", "item", "rating")), seed)


def tuned_options(data: Hidden, near: peer_bmf.Options | None) -> peer_bmf.Options:
    """Return the peer's best options, searched near those of another split, if any.

    Few ratings are held out in five folds, as in `RatingPredictor`; of many, the validation part says enough.
    """
    known = data.train | data.validation
    held = [data.validation]
    if np.count_nonzero(known) <= MANY_RATINGS:
        fold_of_rating = np.random.default_rng(0).permutation(len(known)) % 5
        held = [known & (fold_of_rating == fold) for fold in range(5)]
    folds = [
        (peer_bmf.Ratings(*data.pairs(known & ~part)), peer_bmf.Ratings(*data.pairs(known & part))) for part in held
    ]
    return peer_bmf.tune(folds, (len(data.table.users), len(data.table.items)), data.table.points, near)


def compare(data: Hidden, options: peer_bmf.Options) -> tuple[float, ...]:
    """Return our RMSE, the peer's, our log-loss, and the peer's with normal and with ordinal noise."""
    points, shape = data.table.points, (len(data.table.users), len(data.table.items))
    parts = (data.train, data.validation, data.train | data.validation, data.test)
    train, validation, both, test = (peer_bmf.Ratings(*data.pairs(part)) for part in parts)
    codes = np.searchsorted(points, test.values)
    on_validation, on_test = (
        peer_bmf.averaged(known, asked, shape, options, N_FITS) for known, asked in ((train, validation), (both, test))
    )
    validation_codes = np.searchsorted(points, validation.values)
    losses = []
    for fit_noise, scores in (
        (peer_bmf.normal_noise, peer_bmf.normal_scores),
        (peer_bmf.ordinal_noise, peer_bmf.ordinal_scores),
    ):
        noise = fit_noise(on_validation, validation_codes, points)
        losses.append(-float(np.mean(scores(noise, on_test, points)[np.arange(len(codes)), codes])))
    known = pd.DataFrame({"user": both.users, "item": both.items, "rating": both.values})
    asked = pd.DataFrame({"user": test.users, "item": test.items})
    model = tw.RatingPredictor(scale=points.tolist()).fit(known)
    loss = -float(np.mean(np.log(model.predict_proba(asked)[np.arange(len(codes)), codes])))
    errors = (model.predict(asked) - test.values, np.clip(on_test, points[0], points[-1]) - test.values)
    return *(float(np.sqrt(np.mean(error**2))) for error in errors), loss, *losses


def shown(values: np.ndarray) -> str:
    """Return the mean and its standard error."""
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"


def main() -> None:
    sections = {"size": size, "error": error, "tuned": tuned}
    if sys.argv[1:] == ["fit"]:
        fit()
        return
    print("| section | what | target | measured | |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or sections:
        for what, target, measured, reached in sections[name]():
            print(f"| `{name}` | {what} | {target} | {measured} | {'✓' if reached else '✗'} |", flush=True)


if __name__ == "__main__":
    main()
