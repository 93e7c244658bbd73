"""Columns of synthetic data: a model is drawn, then records with missing cells; methods see the records only."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from twoway.data.records import Records
from twoway.datasets.synthetic import dirichlet_rows, draw_records, nearly_separable
from twoway.fitting.fit import fit
from twoway.model.pmf import JointPMF
from twoway.paper.base import FOR_MODEL, FOR_RECORDS, PROCESS_BYTES, Details, Scores, Setting, method_seed, seed_of
from twoway.paper.scores import scores_of
from twoway.solvers import SPA, CoupledNMF, SolverChoice

# Before anything is timed, kernels are loaded or compiled on at most this many records.
_FEW_RECORDS = 1000


# Each method as a solver of this library, with its number of starts. The paper's stopping rules and starts need the
# truth; these stop on their own objective, with the defaults. The split of SPA is the paper's.
_SPA = SPA(first=3)
SOLVERS: dict[str, tuple[SolverChoice, int | None]] = {
    "CNMF-SPA": (_SPA, 1),
    "CNMF-OPT": ((_SPA, CoupledNMF(pair_weights="equal")), 1),
    "CNMF-SPA-EM": ((_SPA, "em"), 1),
    "RAND-EM": ("em", 1),
    "CTD": ("ctd", 1),
    "MLE-AD-EM": ("mle-ad+em", 1),
    "auto": ("auto", None),
}


@dataclass(frozen=True)
class Synthetic(Setting):
    """What a trial draws: a model, and records from it with missing cells."""

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
        return f"S={power(self.n_records)}"

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
        shape, seed = (self.n_variables, self.n_categories, self.rank), seed_of(FOR_MODEL, trial)
        if self.epsilon is None:
            return dirichlet_rows(*shape, seed=seed)
        return nearly_separable(self.epsilon, *shape, seed=seed)

    def data(self, trial: int) -> Records:
        """Return the records of a trial, the same ones for every method."""
        seed = seed_of(FOR_RECORDS, trial, self.n_records, round(self.observed * 1e6))
        return draw_records(self.model(trial), self.n_records, observed=self.observed, seed=seed)

    @property
    def work(self) -> float:
        """About how much there is to compute."""
        return float(self.n_records) * self.n_variables * self.rank

    @property
    def n_bytes(self) -> int:
        """About how much memory a trial needs at its peak, while the records are drawn."""
        return self.n_records * (4 * self.n_variables + 10 * (self.n_categories - 1)) + PROCESS_BYTES

    def smaller(self) -> Synthetic:
        """Return the same with few records."""
        return replace(self, n_records=min(self.n_records, _FEW_RECORDS))

    def run(self, method: str, data: Records, trial: int, threads: int | None) -> tuple[Scores, Details]:
        """Return the scores of a method's estimate, and how it ended."""
        solver, starts = SOLVERS[method]
        began = time.perf_counter()
        pmf = fit(data, rank=self.rank, solver=solver, starts=starts, seed=method_seed(trial), threads=threads)
        seconds = time.perf_counter() - began
        assert pmf.report is not None
        details = {"stop": pmf.report.stop_reason.value, "passes": pmf.report.starts[pmf.report.best].n_iter}
        return scores_of(self.model(trial), pmf, seconds), details


def power(number: int) -> str:
    """Return a number, as a power of ten if it is a large one.

    Examples
    --------
    >>> power(10**5), power(300)
    ('10⁵', '300')
    """
    exponent = len(str(number)) - 1
    if number != 10**exponent or exponent < 3:
        return str(number)
    return "10" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
