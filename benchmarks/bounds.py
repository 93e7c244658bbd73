"""Compare the paper's bounds with observed errors; write docs/img/bounds.svg and print the table under it.

    python benchmarks/bounds.py

About a minute. The model is nearly separable (N=5, I=10, F=5, ε=0.1), as in the paper's first table, complete records.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import twoway as tw
from twoway.datasets import draw_records, nearly_separable
from twoway.diagnosis.bounds import largest_epsilon, records_for_spa, spa_error, split_constants, table_error
from twoway.model.comparison import match_components
from twoway.solvers import SPA

IMAGE = Path(__file__).resolve().parent.parent / "docs" / "img" / "bounds.svg"
SIZES = (1000, 10_000, 100_000, 1_000_000)


def observed_errors(truth: tw.JointPMF, size: int) -> tuple[float, float, float]:
    """Return the worst table's Frobenius error, SPA's worst ‖Â − A‖₂ and EM's worst entry of a factor."""
    records = draw_records(truth, size, observed=1.0, seed=size)
    tables = tw.count(records)
    table = max(float(np.linalg.norm(np.asarray(one) - np.asarray(truth.marginal(one.names)))) for one in tables)
    spa = tw.fit(tables, rank=truth.rank, solver=SPA(first=3))
    em = tw.fit(records, rank=truth.rank, starts=4)

    def gaps(found: tw.JointPMF) -> list[np.ndarray]:
        matched = match_components(truth, found)
        return [own - other[:, matched] for own, other in zip(truth.factors, found.factors, strict=True)]

    return (
        table,
        max(float(np.linalg.norm(gap, 2)) for gap in gaps(spa)[:3]),
        max(float(np.abs(gap).max()) for gap in gaps(em)),
    )


def em_rate(truth: tw.JointPMF, size: int, risk: float = 0.05) -> float:
    """Return the rate of Theorem 4 for the factors of the rarest component, which no model is guaranteed."""
    log = np.log(12 * len(truth.schema) * truth.rank * max(truth.schema.sizes) / risk)
    return float(np.sqrt(48 * log / (size * truth.weights.min())))


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "twoway"  # reproducible output
    from matplotlib import pyplot

    truth = nearly_separable(0.1)
    constants = split_constants(truth, 3)
    found = np.array([observed_errors(truth, size) for size in SIZES])
    bounds = np.array(
        [
            (
                table_error(size, n_tables=10).error,
                spa_error(constants, size).error,
                em_rate(truth, size),
            )
            for size in SIZES
        ]
    )
    names = (
        "a two-way table, Frobenius norm (Proposition 1)",
        "SPA's factors, spectral norm (Theorem 3, corrected)",
        "EM's factors, largest entry (Theorem 4, not guaranteed)",
    )
    figure, panels = pyplot.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for column, (ax, name) in enumerate(zip(panels, names, strict=True)):
        ax.loglog(SIZES, bounds[:, column], "--", color="C3", label="bound")
        ax.loglog(SIZES, found[:, column], "o-", color="C0", label="observed")
        ax.set_title(name, fontsize=9)
        ax.set_xlabel("records")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    panels[0].set_ylabel("error")
    figure.savefig(IMAGE, metadata={"Date": None})
    print("| records | table: bound | observed | SPA: bound | observed | EM: rate | observed |")
    print("|---|---|---|---|---|---|---|")
    for size, bound, error in zip(SIZES, bounds, found, strict=True):
        cells = " | ".join(f"{one:.2g} | {other:.2g}" for one, other in zip(bound, error, strict=True))
        print(f"| {size:,} | {cells} |")
    largest = largest_epsilon(constants)
    print(
        f"\nκ = {constants.kappa:.2f}, η = {constants.eta:.3f}, ε = {constants.epsilon:.4f}; Theorem 3 admits ε up to"
    )
    print(f"{largest:.2g}, and then asks for {records_for_spa(constants._replace(epsilon=largest)):.1e} records.")


if __name__ == "__main__":
    main()
