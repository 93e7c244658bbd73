"""Measure segments: likelihood and speed beside StepMix, the test of their number, and relations without bias.

    pip install "twoway[bench]"
    python benchmarks/segments.py [likelihood|test|seconds|steps|errors|coverage]

Prints the Markdown tables of docs/segments.md. "likelihood" compares the best of 20 starts with StepMix's on the data
sets of poLCA (TWOWAY_DATA, lca/), one thread each (half an hour, nearly all of it StepMix's). "test" prints how often
the bootstrap likelihood-ratio test rejects on simulated people (10 minutes), "seconds" how long it takes on election.
"steps" compares BCH and ML estimates with StepMix's, "errors" their standard errors with those of StepMix on the same
samples of people, "coverage" prints how often 90 % intervals contain the truth.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import twoway as tw
from twoway.segmentation.search import Search
from twoway.segmentation.segment_count import segment_count_test

N_STARTS = 20
ITEMS = [f"x{n}" for n in range(6)]
MEANS, SLOPES = np.array([-1.0, 1.0, 0.0]), np.array([0.0, -1.0, 1.0])
YES = np.array([0.2, 0.5, 0.8])


def main() -> None:
    sections = {
        "likelihood": likelihood,
        "test": test,
        "seconds": seconds,
        "steps": steps,
        "errors": errors,
        "coverage": coverage,
    }
    for name in sys.argv[1:] or sections:
        sections[name]()
        print(flush=True)


def data_sets() -> dict[str, pd.DataFrame]:
    folder = Path(os.environ["TWOWAY_DATA"]) / "lca"
    frames = {name: pd.read_csv(folder / f"poLCA__{name}.csv") for name in ("carcinoma", "gss82", "election")}
    return {**frames, "election": frames["election"].iloc[:, :12]}


def likelihood() -> None:
    """The best of as many starts, by both, and the seconds that each took."""
    from stepmix import StepMix

    print("| data | segments | twoway | StepMix | twoway, s | StepMix, s | times faster |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, frame in data_sets().items():
        codes = frame.apply(lambda column: pd.Series(pd.factorize(column, sort=True)[0]))
        values = codes.where(codes >= 0).to_numpy(dtype=float)
        kind = "categorical_nan" if np.isnan(values).any() else "categorical"
        records = tw.Records(frame)
        for count in range(2, 7):
            # Compiled once, and not in what is measured; both begin with codes that were read before.
            Search(records.for_fit(), 1).best(count, n_starts=1, seed=[1])
            began = time.perf_counter()
            ours = Search(records.for_fit(), 1).best(count, n_starts=N_STARTS, seed=[0]).log_likelihood
            own = time.perf_counter() - began
            began = time.perf_counter()
            model = StepMix(count, measurement=kind, n_init=N_STARTS, random_state=0, verbose=0, progress_bar=0)
            theirs = quiet(model.fit, values).score(values) * len(values)
            other = time.perf_counter() - began
            print(
                f"| {name} | {count} | {ours:.3f} | {theirs:.3f} | {own:.3f} | {other:.1f} | {other / own:.0f} |",
                flush=True,
            )


def quiet(function: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


# Simulated people of three classes, as in Bakk and Kuha (2018)


def simulate(n: int, separation: float, random: np.random.Generator, labels: Any = None) -> tuple[pd.DataFrame, Any]:
    chances = np.array([[separation] * 6, [separation] * 3 + [1 - separation] * 3, [1 - separation] * 6])
    labels = random.integers(0, 3, n) if labels is None else labels
    return pd.DataFrame((random.random((n, 6)) < chances[labels]).astype(int), columns=ITEMS), labels


def test() -> None:
    """How often one class more is accepted at 5 %: the true number against one less, and one more than that."""
    n_samples, n_replicates = 1000, 99
    print("| people | test | rejected |\n|---:|---|---:|")
    for n in (500, 1000):
        rejected = {3: 0, 4: 0}
        for sample in range(n_samples):
            frame, _ = simulate(n, 0.8, np.random.default_rng([n, sample]))
            search = Search(tw.Records(frame).for_fit(), None)
            climbs = {count: search.best(count, n_starts=20, seed=[sample]) for count in (2, 3, 4)}
            for count in rejected:
                if count == 3 and sample >= 100:
                    continue
                p_value, _ = segment_count_test(
                    search, climbs[count - 1], climbs[count], n_replicates, seed=sample, show=lambda done: None
                )
                rejected[count] += p_value <= 0.05
        print(f"| {n} | 4 segments against 3, the truth (size) | {rejected[4] / n_samples:.1%} |")
        print(f"| {n} | 3 segments, the truth, against 2 (power) | {rejected[3] / 100:.1%} |", flush=True)


def seconds() -> None:
    """How long 100 replicates of the test take on the election study."""
    search = Search(tw.Records(data_sets()["election"]).for_fit(), None)
    print("| test on election | ratio | p | replicates | seconds |\n|---|---:|---:|---:|---:|")
    for count in (3, 4, 5):
        fewer, more = (search.best(number, n_starts=50, seed=[0]) for number in (count - 1, count))
        began = time.perf_counter()
        p_value, n = segment_count_test(search, fewer, more, 100, seed=0, show=lambda done: None)
        took = time.perf_counter() - began
        ratio = 2 * (more.log_likelihood - fewer.log_likelihood)
        print(f"| {count} segments against {count - 1} | {ratio:.1f} | {p_value:.3f} | {n} | {took:.1f} |", flush=True)


def their_data(kind: str, separation: float, n: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    from stepmix import datasets

    make = datasets.data_bakk_covariate if kind == "covariate" else datasets.data_bakk_response
    items, other, _ = make(n, separation, random_state=1)
    return pd.DataFrame(items.astype(int), columns=ITEMS).assign(other=other.ravel().astype(float)), items, other


def their_model(kind: str, correction: str) -> Any:
    from stepmix import StepMix

    options = {"n_components": 3, "measurement": "bernoulli", "n_steps": 3, "n_init": 10, "max_iter": 3000}
    options |= {"random_state": 0, "verbose": 0, "progress_bar": 0}
    if kind == "covariate":
        # One step of Newton's is one of the EM of "ML", but no logit with BCH weights.
        params = {"method": "newton-raphson", "max_iter": 1 if correction == "ML" else 100}
        return StepMix(structural="covariate", correction=correction, structural_params=params, **options)
    return StepMix(structural="gaussian_diag", correction=correction, **options)


def in_our_order(model: Any, found: tw.Segments) -> list[int]:
    ours = np.array([factor[1] for factor in found.pmf.factors]).T
    theirs = model.get_parameters()["measurement"]["pis"]
    return [int(np.argmin(((theirs - own) ** 2).sum(axis=1))) for own in ours]


def their_estimates(model: Any, found: tw.Segments, kind: str) -> np.ndarray:
    values = model.get_parameters()["structural"]["beta" if kind == "covariate" else "means"]
    return contrasts(values[in_our_order(model, found)], kind)


def contrasts(values: np.ndarray, kind: str) -> np.ndarray:
    """Return coefficients against the first class, or the means as they are, (…, classes, terms)."""
    return values[..., 1:, :] - values[..., :1, :] if kind == "covariate" else values


def related(found: tw.Segments, frame: pd.DataFrame, kind: str, correction: str, replicates: int) -> Any:
    relations = found.relate(frame, replicates=replicates)
    if kind == "covariate":
        return relations.covariates("other", correction.lower())
    return relations.outcomes("other", correction.lower())["other"]


def steps() -> None:
    """Estimates beside StepMix's."""
    print("| data | separation | correction | most that an estimate differs |\n|---|---:|---|---:|")
    for kind in ("covariate", "outcome"):
        for separation in (0.8, 0.9):
            frame, items, other = their_data(kind, separation, 3000)
            found = tw.segments(frame[ITEMS], 3, replicates=0)
            for correction in ("BCH", "ML"):
                model = quiet(their_model(kind, correction).fit, items, other)
                theirs = their_estimates(model, found, kind)
                answer = related(found, frame, kind, correction, 50)
                ours = answer.coefficients if kind == "covariate" else answer.estimates
                print(f"| {kind} | {separation} | {correction} | {np.abs(ours - theirs).max():.1e} |", flush=True)


def errors() -> None:
    """Standard errors beside those of StepMix, fitted to the same samples of people, and those of its own bootstrap."""
    n_draws, n_theirs = 60, 100
    print("| data | correction | standard errors | StepMix, same samples, differs by | StepMix's own bootstrap |")
    print("|---|---|---|---:|---|")
    for kind in ("covariate", "outcome"):
        frame, items, other = their_data(kind, 0.9, 3000)
        found = tw.segments(frame[ITEMS], 3, replicates=0)
        for correction in ("BCH", "ML"):
            ours = related(found, frame, kind, correction, n_draws).errors
            model = their_model(kind, correction)
            model.set_params(n_init=1)
            drawn = []
            for number in range(n_draws):
                # The same people as in twoway's replicate of this number.
                times = np.random.default_rng([0, number]).multinomial(len(frame), np.full(len(frame), 1 / len(frame)))
                people = np.repeat(np.arange(len(frame)), times)
                drawn.append(their_estimates(quiet(model.fit, items[people], other[people]), found, kind))
            same = np.std(drawn, axis=0, ddof=1)
            own = their_bootstrap(quiet(model.fit, items, other), found, kind, items, other, n_theirs)
            shown = [", ".join(f"{value:.4f}" for value in some.ravel()) for some in (ours, own)]
            worst = np.abs(ours - same).max()
            print(f"| {kind} | {correction} | {shown[0]} | {worst:.1e} | {shown[1]} |", flush=True)


def their_bootstrap(model: Any, found: tw.Segments, kind: str, items: Any, other: Any, n: int) -> np.ndarray:
    order = in_our_order(model, found)
    drawn, _ = quiet(model.bootstrap, items, other, n_repetitions=n, progress_bar=False, random_state=0)
    drawn = drawn.reset_index()
    drawn = drawn[(drawn["model"] == "structural") & (drawn["param"] != "covariances")]
    by_class = drawn.pivot_table(index="rep", columns=["class_no", "variable"], values="value")
    names = sorted(set(drawn["variable"]), key=lambda name: name != "intercept")
    values = np.stack([by_class[place][names].to_numpy() for place in order], axis=1)
    return contrasts(values, kind).std(axis=0, ddof=1)


# Coverage

TRUE_CHANCES = np.array([[0.8] * 6, [0.8] * 3 + [0.2] * 3, [0.2] * 6])
VALUES = np.arange(1, 6)


def coverage() -> None:
    """How often 90 % intervals contain the truth, and the bias of each correction."""
    n_samples, n, n_replicates = 200, 1000, 60
    print(
        "| relation | correction | bias | 90 % intervals that contain the truth | standard error / spread | samples |"
    )
    print("|---|---|---:|---:|---:|---:|")
    for kind in ("outcome", "shares", "covariate"):
        results: dict[str, list[Any]] = {"none": [], "BCH": [], "ML": []}
        for sample in range(n_samples):
            frame, truth = related_people(kind, n, np.random.default_rng([sample, n]))
            found = in_true_order(tw.segments(frame[ITEMS], 3, starts=20, replicates=0))
            if found is None:
                continue
            for correction, drawn in results.items():
                answer = related(found, frame, kind, correction, n_replicates)
                both = (
                    (answer.coefficients, answer.errors) if kind == "covariate" else (answer.estimates, answer.errors)
                )
                # Shares add up to one, and the truth of an intercept or of a mean of 0 has no relative bias.
                drawn.append([part[:, 1:] if kind != "outcome" else part for part in both])
        for correction, drawn in results.items():
            estimates, spread = np.array(drawn).swapaxes(0, 1)
            known = truth != 0
            bias = np.abs(estimates.mean(axis=0)[known] / truth[known] - 1).max()
            inside = (np.abs(estimates - truth) <= 1.645 * spread).mean()
            ratio = (spread.mean(axis=0) / estimates.std(axis=0)).mean()
            print(f"| {kind} | {correction} | {bias:.1%} | {inside:.1%} | {ratio:.2f} | {len(drawn)} |", flush=True)


def related_people(kind: str, n: int, random: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return people with something that depends on their class, or on which it depends, and the truth of that."""
    if kind == "covariate":
        z = random.choice(VALUES, n)
        logits = z[:, None] * SLOPES + np.array([0.0, 2.34459467, -3.65540533])
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        frame, _ = simulate(n, 0.8, random, (shares.cumsum(axis=1) < random.random((n, 1))).sum(axis=1))
        return frame.assign(other=z.astype(float)), SLOPES[1:, None]
    frame, labels = simulate(n, 0.8, random)
    if kind == "outcome":
        return frame.assign(other=random.normal(MEANS[labels])), MEANS[:, None]
    return frame.assign(other=np.where(random.random(n) < YES[labels], "yes", "no")), YES[:, None]


def in_true_order(found: tw.Segments) -> tw.Segments | None:
    """Return segments in the order of the true classes; None where two of them are nearest to the same one."""
    own = np.array([factor[1] for factor in found.pmf.factors]).T
    order = [int(np.argmin(((own - row) ** 2).sum(axis=1))) for row in TRUE_CHANCES]
    if sorted(order) != [0, 1, 2]:
        return None
    pmf = tw.JointPMF(found.pmf.weights[order], [factor[:, order] for factor in found.pmf.factors], found.pmf.schema)
    names = tuple(found.names[place] for place in order)
    return tw.Segments(pmf, names, found.candidates, found.quality, found.errors[:, order])


if __name__ == "__main__":
    main()
