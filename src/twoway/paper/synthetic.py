"""Columns of synthetic data: a model is drawn, then records with missing cells; methods see the records only."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from twoway.data.records import Records
from twoway.datasets.synthetic import dirichlet_rows, draw_records, nearly_separable
from twoway.fitting.fit import fit
from twoway.model.comparison import factor_mse, match_components, mean_relative_error
from twoway.model.pmf import JointPMF
from twoway.paper.trials import Details, Scores, TrialSetting, trial_seed
from twoway.solvers import SPA, CoupledNMF, SolverChoice

# Each method as a solver of this library, with its number of starts. The paper's stopping rules and starts need the
# truth; these stop on their own objective, with the defaults. The split of SPA is the paper's.
_SPA = SPA(first=3)
SOLVERS: dict[str, tuple[SolverChoice, int | None]] = {
    "CNMF-SPA": (_SPA, 1),
    "CNMF-OPT": ((_SPA, CoupledNMF(pair_weights="equal")), 1),
    # As the paper has it, with its programs' tolerance.
    "CNMF-OPT-mirror": ((_SPA, CoupledNMF(pair_weights="equal", update="mirror", tol=1e-6)), 1),
    "CNMF-SPA-EM": ((_SPA, "em"), 1),
    "RAND-EM": ("em", 1),
    "CTD": ("ctd", 1),
    "MLE-AD-EM": ("mle-ad+em", 1),
    "auto": ("auto", None),
}


@dataclass(frozen=True)
class Synthetic(TrialSetting):
    """What a trial draws: a model, and records from it with missing cells."""

    methods = tuple(SOLVERS)
    n_records: int
    observed: float = 0.5
    """The probability that a cell is observed."""
    n_variables: int = 5
    rank: int = 5
    n_categories: int = 10
    epsilon: float | None = 0.1
    """How far one variable is from separable; None for models without such a variable."""

    @property
    def drawn(self) -> str:
        """The number of records."""
        return f"S={synthetic_power(self.n_records)}"

    def column(self, varies: str) -> str:
        """Return what differs from the other columns."""
        shape = f"[{self.n_variables},{self.rank},{self.n_categories}]"
        return {"records": self.drawn, "observed": f"p={self.observed:g}"}.get(varies, shape)

    @property
    def n_trials(self) -> int:
        """The number of trials at the paper's size: fewer if there are very many records."""
        return 5 if self.n_records >= 10**6 else 20

    def model(self, trial: int) -> JointPMF:
        """Return the truth of a trial, the same one for any number of records."""
        shape, seed = (self.n_variables, self.n_categories, self.rank), trial_seed("model", trial)
        if self.epsilon is None:
            return dirichlet_rows(*shape, seed=seed)
        return nearly_separable(self.epsilon, *shape, seed=seed)

    def data(self, trial: int) -> Records:
        """Return the records of a trial, the same ones for every method."""
        seed = trial_seed("records", trial, self.n_records, round(self.observed * 1e6))
        return draw_records(self.model(trial), self.n_records, observed=self.observed, seed=seed)

    @property
    def work(self) -> float:
        """About how much there is to compute."""
        return float(self.n_records) * self.n_variables * self.rank

    @property
    def n_bytes(self) -> int:
        """About how much memory a trial needs at its peak, while the records are drawn."""
        return self.n_records * (4 * self.n_variables + 10 * (self.n_categories - 1)) + super().n_bytes

    def run(self, method: str, data: Records, trial: int, threads: int | None) -> tuple[Scores, Details]:
        """Return the scores of a method's estimate, and how it ended."""
        solver, starts = SOLVERS[method]
        began = time.perf_counter()
        seed = trial_seed("method", trial)
        pmf = fit(data, rank=self.rank, solver=solver, starts=starts, seed=seed, threads=threads)
        seconds = time.perf_counter() - began
        assert pmf.report is not None
        details = {"stop": pmf.report.stop_reason.value, "passes": pmf.report.starts[pmf.report.best].n_iter}
        return synthetic_scores(self.model(trial), pmf, seconds), details


def synthetic_power(number: int) -> str:
    """Return a number, as a power of ten if it is a large one.

    Examples
    --------
    >>> synthetic_power(10**5), synthetic_power(300)
    ('10⁵', '300')
    """
    exponent = len(str(number)) - 1
    if number != 10**exponent or exponent < 3:
        return str(number)
    return "10" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def synthetic_scores(truth: JointPMF, estimate: JointPMF, seconds: float) -> dict[str, float]:
    """Return every metric of an estimate."""
    return {
        "mse": factor_mse(truth, estimate),
        "mse_published": published_synthetic_mse(truth, estimate),
        "mre": mean_relative_error(truth, estimate),
        "mre_estimate": mean_relative_error(truth, estimate, relative_to="estimate"),
        "seconds": seconds,
    }


def published_synthetic_mse(truth: JointPMF, estimate: JointPMF) -> float:
    """Return the MSE with the first factor of the truth multiplied by its weights, the estimate's not.

    The paper's tables with 5 variables were computed in this way. A perfect estimate gets about 0.0204 there.

    Examples
    --------
    >>> from twoway.datasets import nearly_separable
    >>> truth = nearly_separable(seed=1)
    >>> factor_mse(truth, truth), round(published_synthetic_mse(truth, truth), 2)
    (0.0, 0.02)
    """
    matched = match_components(truth, estimate)
    first = slice(0, truth.schema.sizes[0])
    right, wrong = truth.stacked[first], truth.stacked[first] * truth.weights
    estimated = estimate.stacked[first][:, matched]
    constant = np.square(estimated - wrong).sum() - np.square(estimated - right).sum()
    return factor_mse(truth, estimate) + float(constant) / (len(truth.schema) * truth.rank)
