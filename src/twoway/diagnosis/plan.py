"""How many records a given accuracy needs, by simulation and by the paper's bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from twoway.datasets.synthetic import draw_records
from twoway.diagnosis.alternatives import distance_to_alternatives
from twoway.diagnosis.bounds import largest_epsilon, records_for_spa, records_for_table_error, split_constants
from twoway.errors import DataError, check_number, check_whole_number
from twoway.fitting.fit import count, fit
from twoway.fitting.structure import Structure
from twoway.model.comparison import total_variation
from twoway.model.pmf import JointPMF
from twoway.notebook import Shown
from twoway.report import Monitor, Progress
from twoway.schema import Schema
from twoway.solvers import Watch
from twoway.text import plain_data

_SIZES = (300, 1000, 3000, 10_000, 30_000, 100_000)
# The most observed cells of a simulation: larger numbers of records are extrapolated.
_MAX_CELLS = 2_000_000
_N_STARTS = 4


@dataclass(frozen=True)
class Trial:
    """The errors with one number of records."""

    n_records: int
    errors: tuple[float, ...]
    """The total variation between estimate and truth in each trial."""

    @property
    def error(self) -> float:
        """The mean error."""
        return float(np.mean(self.errors))


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """How many records a given accuracy needs."""

    error: float
    """The total variation to reach."""
    of: str
    """What the error is about: the joint, or some variables."""
    observed: float
    n_records: float | None
    """About how many records are needed, by simulation; None if no number of them seems enough."""
    is_beyond: bool
    """Whether that is extrapolated beyond the numbers that were simulated."""
    trials: tuple[Trial, ...]
    by_tables_bound: float
    """Records after which Proposition 1 guarantees every two-way table that error, with probability 95 %."""
    by_spa_bound: float
    """Records from which Theorem 3 applies, in its corrected form; infinite where it never does."""
    spa_note: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain lists and dictionaries; numbers that are infinite are None."""
        trials = [{**plain_data(trial), "error": trial.error} for trial in self.trials]
        return {**plain_data(self), "trials": trials}

    def __str__(self) -> str:
        goal = f"bring the total variation of {self.of} to {self.error:g}"
        if self.n_records is None:
            head = f"no number of records seems to {goal}: errors stopped falling at {self.trials[-1].error:.3g}"
        else:
            share = "" if self.observed == 1 else f", of whose cells {self.observed:.0%} are observed,"
            how = " (extrapolated: errors are assumed to keep falling as they did)" if self.is_beyond else ""
            head = f"about {_rounded_plan(self.n_records)} records{share} {goal}{how}"
        trials = [
            f"{trial.n_records:>10,}   {trial.error:.4f}  ({min(trial.errors):.4f} to {max(trial.errors):.4f})"
            for trial in self.trials
        ]
        bounds = [
            f"guaranteed for every two-way table (Proposition 1): {_rounded_plan(self.by_tables_bound)} records",
            f"guaranteed for the factors (Theorem 3): {self.spa_note}",
            "guarantees hold for any model and need far more records than are usually needed; see docs/theory.md",
        ]
        return "\n".join([head, "", "   records   error", *trials, "", *bounds])


def plan(
    model: JointPMF | Schema,
    error: float = 0.05,
    *,
    names: str | Sequence[str] | None = None,
    rank: int | None = None,
    observed: float = 1.0,
    tables: bool = False,
    sizes: Iterable[int] | None = None,
    trials: int = 3,
    seed: int = 0,
    threads: int | None = None,
    monitor: Monitor | bool | None = None,
) -> Plan:
    """Return how many records a given accuracy needs, by simulation and by the paper's bounds.

    Records are drawn from the model, a new model is fitted to them, and its answers are compared with the first one's.

    Parameters
    ----------
    model
        A fitted or assumed model; or a `Schema`, for a random model of these variables and ``rank``.
    error
        The total variation to reach, between 0 and 1: how far off a probability may be.
    names
        The variables whose joint distribution matters; all by default.
    rank
        For a schema, the number of components of the random model. For a model it is its own.
    observed
        The share of cells that will be observed.
    tables
        Whether only two-way tables of the records will be available.
    sizes
        Numbers of records to try; by default from 300 up, until the error is reached or simulations get too large.
    trials
        The number of simulations for each number of records.
    seed, threads, monitor
        As for `fit`.

    Examples
    --------
    >>> from twoway.datasets import dirichlet_rows
    >>> answer = plan(dirichlet_rows(4, 3, 2), 0.05, names=["x1", "x2"], sizes=[200, 800], trials=2)
    >>> bool(100 < answer.n_records < 5000)
    True
    """
    error = check_number("error", error, "a total variation between 0 and 1", lambda number: 0 < number < 1)
    observed = check_number("observed", observed, "a share above 0 and at most 1", lambda number: 0 < number <= 1)
    trials, seed = check_whole_number("trials", trials, 1), check_whole_number("seed", seed, 0)
    truth = _planned_model(model, rank, seed)
    asked = truth.schema.names if names is None else truth.schema.subset(names).names
    n_cells = len(truth.schema) * observed
    usual = [size for size in _SIZES if size * n_cells <= _MAX_CELLS] or _SIZES[:1]
    planned = sorted({check_whole_number("a size", size, 2) for size in (usual if sizes is None else sizes)})
    if not planned:
        raise DataError("there must be at least one number of records to try; got none")
    is_joint = len(asked) == len(truth.schema)
    distance = distance_to_alternatives(truth, seed) if is_joint else lambda pmf: total_variation(truth, pmf, asked)
    structure: Structure = "single" if truth.n_hidden == 1 else "tree"
    refit = partial(fit, rank=truth.rank, starts=_N_STARTS, structure=structure, threads=threads)
    done: list[Trial] = []
    with Watch.showing(monitor) as watch:
        for size in planned:
            errors = []
            for trial in range(trials):
                watch.show(Progress("simulating", len(done) * trials + trial, len(planned) * trials))
                records = draw_records(truth, size, observed=observed, seed=np.random.default_rng([seed, size, trial]))
                source = count(records, threads=threads) if tables else records
                errors.append(distance(refit(source, seed=seed + trial)))
            done.append(Trial(size, tuple(errors)))
            if sizes is None and done[-1].error < 0.8 * error:
                break
    of = "the joint" if is_joint else " × ".join(asked)
    needed, is_beyond = _planned_records(done, error)
    bounds = _plan_by_tables(truth.schema, error, observed), *_plan_by_spa(truth, observed)
    return Plan(error, of, observed, needed, is_beyond, tuple(done), *bounds)


def _planned_model(model: JointPMF | Schema, rank: int | None, seed: int) -> JointPMF:
    model = getattr(model, "pmf", model)  # that of a Bootstrap
    if isinstance(model, JointPMF):
        if rank not in (None, model.rank):
            raise DataError(f"the model has rank {model.rank}, and rank {rank} was asked for; leave rank out")
        return model
    if not isinstance(model, Schema):
        raise DataError(f"plan takes a JointPMF or a Schema, not {type(model).__name__}")
    if rank is None:
        raise DataError("a schema does not show how variables depend on each other; give a rank to assume")
    random = np.random.default_rng(seed)
    rows = [random.dirichlet(np.ones(check_whole_number("rank", rank, 1)), size) for size in model.sizes]
    return JointPMF(np.full(rank, 1.0 / rank), [row / row.sum(axis=0) for row in rows], model)


def _planned_records(trials: Sequence[Trial], error: float) -> tuple[float | None, bool]:
    """Return the number of records at which the mean error is reached, and whether it is extrapolated."""
    sizes, errors = np.array([trial.n_records for trial in trials]), np.array([trial.error for trial in trials])
    if (reached := np.flatnonzero(errors <= error)).size:
        low, high = reached[0] - 1, reached[0]
        if high == 0:
            return float(sizes[0]), False
        part = math.log(errors[low] / error) / math.log(errors[low] / max(errors[high], 1e-12))
        return float(sizes[low] * (sizes[high] / sizes[low]) ** part), False
    if len(trials) < 2:
        return None, True
    # Errors fall with a power of the number of records, in the long run its root.
    slope = float(np.polyfit(np.log(sizes[-3:]), np.log(errors[-3:]), 1)[0])
    if slope > -0.15:
        return None, True
    return float(sizes[-1] * (errors[-1] / error) ** (-1.0 / slope)), True


def _plan_by_tables(schema: Schema, error: float, observed: float) -> float:
    """Return how many records Proposition 1 needs, so that no pair is off by more in total variation."""
    if len(schema) < 2:
        return math.inf
    # Σ|x| ≤ √cells · ‖x‖, and total variation is half of that.
    frobenius = 2.0 * error / math.sqrt(math.prod(sorted(schema.sizes)[-2:]))
    return records_for_table_error(frobenius, observed, n_tables=math.comb(len(schema), 2))


def _plan_by_spa(truth: JointPMF, observed: float) -> tuple[float, str]:
    """Return how many records Theorem 3 needs, and that in words."""
    if len(truth.schema) < 2:
        return math.inf, "does not apply to a single variable"
    if truth.n_hidden > 1:
        return math.inf, "does not apply to hidden variables on a tree"
    constants = split_constants(truth, len(truth.schema) // 2)
    if not math.isfinite(constants.kappa):
        return math.inf, "does not apply: the first half of the variables has too few categories for this rank"
    if constants.epsilon > (largest := largest_epsilon(constants)):
        within = f"the factors are separable within ε = {constants.epsilon:.3g}, and it needs {largest:.2g}"
        return math.inf, f"does not apply, whatever the number of records: {within}"
    needed = records_for_spa(constants._replace(epsilon=largest), observed)
    return needed, f"from {_rounded_plan(needed)} records"


def _rounded_plan(number: float) -> str:
    """Return a number with two significant digits."""
    if not math.isfinite(number):
        return "no number of"
    return f"{number:.1e}" if number >= 1e9 else f"{float(f'{number:.2g}'):,.0f}"
