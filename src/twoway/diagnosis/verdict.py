"""What a diagnosis says: its findings, its verdict, and both as text and as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from twoway.checks.contradiction import Contradiction
from twoway.checks.fit_quality import PairFit
from twoway.checks.probability_range import MAX_CELLS, ProbabilityRange, answers_of_models, probability_range
from twoway.diagnosis.conditions import Check
from twoway.errors import DataError
from twoway.model.pmf import JointPMF
from twoway.tables.tables import Tables
from twoway.text import printable

_SHOWN = 4

Kind = Literal["recoverable", "recoverable if", "not from these tables"]


@dataclass(frozen=True)
class MissingTable:
    """A table that is not there, and how much it would help."""

    variables: tuple[str, str]
    disagreement: float
    """How far models that fit all tables differ on this one, in total variation; NaN where none could be fitted."""
    why: str


@dataclass(frozen=True)
class ComponentNote:
    """A component that should be read with care."""

    component: int
    """Its position, as in ``pmf.weights``."""
    what: str


@dataclass(frozen=True)
class Diagnosis:
    """Whether the joint can be known from two-way tables, and what stands in the way."""

    kind: Kind
    reason: str
    """After "recoverable if" or "not from these tables:"; for "recoverable", why."""
    rank: int
    n_variables: int
    n_tables: int
    checks: tuple[Check, ...]
    split: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Two groups of variables with all tables between them."""
    condition_numbers: tuple[float, float] | None = None
    """Of the stacked factors of the two groups."""
    separability: tuple[float, float] | None = None
    """The smallest ε for which each group is ε-separable."""
    visible: int | None = None
    """The components that the tables show above sampling error."""
    strength: float | None = None
    """How far the weakest component stands above sampling error: 1 is chance."""
    excess: float | None = None
    """How far the next component after the rank stands above sampling error: 1 is chance."""
    ambiguity: float = 0.0
    """The total variation between the joint and that of another model with exactly the same tables, as far as found."""
    disagreement: float | None = None
    """The largest total variation between the joints of restarts that fit the tables equally well."""
    any_joint: float | None = None
    """The total variation between the joint and another one with the same tables, of any rank, as far as found."""
    beyond_tables: float | None = None
    """The total variation between the joint fitted to the tables and that fitted to the records."""
    records_say_more: bool = False
    """Whether the fit to the records explains them better than that to their tables, by more than chance."""
    misfits: int = 0
    """Tables that the model does not fit, by more than chance."""
    worst_misfit: PairFit | None = None
    """The one of them that is off most."""
    three_way_misfits: int = 0
    """Three-way tables of the records that the model does not fit, by more than chance."""
    worst_three_way: PairFit | None = None
    """The one of them that is off most."""
    contradiction: Contradiction | None = None
    """Tables that no joint has."""
    components: tuple[ComponentNote, ...] = ()
    hanging: tuple[str, ...] = ()
    """Variables whose tables leave them open."""
    missing: tuple[MissingTable, ...] = ()
    """Tables that are not there, the most helpful first."""
    advice: tuple[str, ...] = ()
    tables: Tables | None = field(default=None, repr=False, compare=False)
    """The tables that were looked at."""
    is_exact: bool = False
    """Whether the tables are those of a model, and leave nothing to chance."""
    models: tuple[JointPMF, ...] = field(default=(), repr=False, compare=False)
    """The models that were found to fit the tables, the best first."""

    def range(
        self,
        event: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        *,
        level: float = 0.95,
        max_cells: int = MAX_CELLS,
    ) -> ProbabilityRange:
        """Return the least and greatest probability that any joint with these tables can have.

        Beside it stand the least and greatest answer of the models that were found to fit the tables. See
        `probability_range` for the parameters.

        Examples
        --------
        >>> from twoway.datasets import dirichlet_rows
        >>> from twoway.diagnosis.diagnose import diagnose
        >>> pmf = dirichlet_rows(3, 2, 2, seed=1)
        >>> event = {"x1": 0, "x2": 0, "x3": 0}
        >>> pmf.prob(event) in diagnose(pmf).range(event)
        True
        """
        if self.tables is None:
            raise DataError("this diagnosis has no tables to compute a range from")
        bounds = probability_range(
            self.tables, event, given, level=None if self.is_exact else level, max_cells=max_cells
        )
        return bounds.with_models(answers_of_models(self.models, event, given))

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        joint = {"recoverable": ": ", "recoverable if": " ", "not from these tables": ": "}[self.kind]
        return f"{self.kind}{joint}{self.reason}"

    def check(self, start: str) -> Check:
        """Return the check whose name begins so."""
        return next(check for check in self.checks if check.name.startswith(start))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain lists and dictionaries; what is not finite is None."""
        findings = asdict(replace(self, tables=None, models=()))
        for name in ("tables", "models"):
            del findings[name]
        return {"verdict": self.verdict, **_plain(findings)}

    def __str__(self) -> str:
        lines = [self.verdict, ""]
        lines.append(f"{self.n_variables} variables, {self.n_tables} of {self._n_pairs} tables, rank {self.rank}")
        lines += [f"  {check}" for check in self.checks]
        if self.separability is not None:
            lines.append("  separable within ε = " + " and ".join(f"{one:.3f}" for one in self.separability))
        if self.condition_numbers is not None:
            lines.append("  condition numbers " + " and ".join(f"{one:.3g}" for one in self.condition_numbers))
        if self.visible is not None and self.strength is not None:
            lines.append(
                f"  the tables show {self.visible} components above sampling error; number {self.rank} is "
                f"{self.strength:.2f} times what chance makes"
            )
        lines.append(f"  models with exactly the same tables differ by up to {self.ambiguity:.3f} in total variation")
        if self.disagreement is not None:
            lines.append(f"  restarts that fit as well differ by up to {self.disagreement:.3f}")
        if self.any_joint is not None:
            lines.append(f"  joints of any rank with the same tables differ by up to {self.any_joint:.3f}")
        for misfit in (self.worst_misfit, self.worst_three_way):
            if misfit is not None:
                lines.append(f"  {describe_misfit(misfit)}")
        if self.contradiction is not None:
            lines.append(f"  {self.contradiction}")
        if self.beyond_tables is not None:
            lines.append(f"  the records, fitted as such, move the joint by {self.beyond_tables:.3f}")
        lines += [f"  component {note.component}: {note.what}" for note in self.components[:_SHOWN]]
        if len(self.components) > _SHOWN:
            lines.append(f"  … {len(self.components) - _SHOWN} more notes on components")
        for table in self.missing[:3]:
            names = " × ".join(printable(name) for name in table.variables)
            lines.append(f"  a table of {names} would help: {table.why}")
        lines += [f"→ {told}" for told in self.advice]
        return "\n".join(lines)

    @property
    def _n_pairs(self) -> int:
        return self.n_variables * (self.n_variables - 1) // 2


def describe_misfit(fit: PairFit) -> str:
    """Return in words how a table is off."""
    names = " × ".join(printable(name) for name in fit.variables)
    cell = ", ".join(printable(label) for label in fit.worst_cell)
    return (
        f"the table of {names} is off by {fit.total_variation:.2g} (total variation), most at ({cell}): observed "
        f"{fit.observed:.4f}, modelled {fit.modelled:.4f}"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
