"""Density: the mean log-probability of test records, after training on one part and choosing by another."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

import twoway as tw
from board.data import folder
from board.environments import Environments
from board.store import Result
from twoway.solvers.loop import Loop
from twoway.solvers.smoothing import Smoothing
from twoway.solvers.tree_mixture import fit_random_tree_mixture

N_TREES = (2, 4, 8, 16, 32, 64, 128)
SMOOTHING = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BUDGET_SECONDS = 300.0
METHODS = ("mixture of trees", "Chow-Liu tree", "LearnSPN")


def data() -> Mapping[str, Sequence[str]]:
    """Return the folders with a training, a validation and a test part, the fewest cells first."""
    folders = sorted((folder() / "density").iterdir(), key=lambda place: file_of(place, "train").stat().st_size)
    return {place.name: ("",) for place in folders}


def file_of(place: Path, part: str) -> Path:
    """Return the file of a part: name.train.data, of whatever compression; "ts" also is a name of training."""
    names = {"train": ("train", "ts")}.get(part, (part,))
    return next(path for name in names for path in sorted(place.glob(f"*.{name}.data*")))


def run(data: str, case: str, seed: int, methods: Sequence[str], environments: Environments) -> Iterator[Result]:
    """Fit the training part; the parts are the same for all seeds, random starts differ."""
    train, valid, test = parts_of(data)
    for method in methods:
        began = time.process_time()
        if method == "twoway":
            model = tw.JointPMFDensity(threads=1, random_state=seed).fit(train, validation=valid)
            note = ", ".join(f"{form} {share:.2f}" for form, share in model.forms_.items())
            scores = model.score_samples(test)
        elif method == "LearnSPN":
            note, tuning = spn_options(data, environments)
            scores, _, spent = by_learnspn(data, seed, environments, options=np.array(note))
        else:
            pmf, note = best_trees(train, valid, (1,) if method == "Chow-Liu tree" else N_TREES, seed)
            scores = pmf.log_prob(coded(test))
        seconds = tuning + spent if method == "LearnSPN" else time.process_time() - began
        error = float(scores.std(ddof=1) / np.sqrt(len(scores)))
        reached = {"log-probability": float(scores.mean()), "standard error": error}
        yield Result("density", data, case, method, seed, reached, seconds, note)


@cache
def parts_of(data: str) -> tuple[np.ndarray, ...]:
    """Return the training, validation and test part."""
    files = (file_of(folder() / "density" / data, part) for part in ("train", "valid", "test"))
    return tuple(np.loadtxt(file, delimiter=",", dtype=np.int64) for file in files)


@cache
def spn_options(data: str, environments: Environments) -> tuple[str, float]:
    """Return the options of LearnSPN and the seconds of choosing them: once, since all seeds have the same parts."""
    _, options, seconds = by_learnspn(data, 0, environments)
    return options, seconds


def by_learnspn(data: str, seed: int, environments: Environments, **more: np.ndarray) -> tuple[np.ndarray, str, float]:
    """Return the scores of test records, the options, and CPU seconds."""
    arrays = dict(zip(("train", "valid", "test"), parts_of(data), strict=True)) | more
    numbers = {"seed": np.array(seed), "budget": np.array(BUDGET_SECONDS)}
    with tempfile.TemporaryDirectory() as own:
        found = environments.run("deeprob-kit", "spn", own, **arrays, **numbers)
    return found["scores"], str(found["options"]), float(found["seconds"])


def coded(values: np.ndarray) -> tw.Records:
    schema = tw.Schema(tuple(tw.Variable(f"x{n}", (0, 1)) for n in range(values.shape[1])))
    return tw.Records(values, schema=schema)


def best_trees(train: np.ndarray, valid: np.ndarray, counts: Sequence[int], seed: int) -> tuple[tw.JointPMF, str]:
    """Return the mixture of trees under which the validation part is most probable: one fit, not an average of some.

    First the smoothing of the fewest trees is chosen, then their number.
    """
    records, held, found = coded(train).for_fit(), coded(valid), dict[tuple[int, float], tuple[float, tw.JointPMF]]()

    def reached(count: int, smoothing: float) -> float:
        if (count, smoothing) not in found:
            loop = Loop("trees", 300, 1e-3)
            pmf = fit_random_tree_mixture(records, count, Smoothing(smoothing, smoothing), (seed, 0), loop).pmf
            found[count, smoothing] = float(pmf.log_prob(held).mean()), pmf
        return found[count, smoothing][0]

    smoothing = max(SMOOTHING, key=lambda amount: reached(counts[0], amount))
    best = reached(counts[0], smoothing)
    for count in counts[1:]:
        if (following := reached(count, smoothing)) <= best:
            break
        best = following
    (count, smoothing), (_, pmf) = max(found.items(), key=lambda item: item[1][0])
    return pmf, f"{count} trees, smoothing {smoothing:g}"
