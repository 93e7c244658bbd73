"""JointPMF: the joint probability of discrete variables; one class, more than half of it docstrings.

Pr(i1, …, iN) = Σ_f weights_f · Π_n factor_n(i_n, f), or the same with hidden variables on a tree (`HiddenTree`).
Variables that a question does not name are summed out by leaving their factors away, so no answer needs the joint.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import ArrayLike

from twoway.arrays import Floats, read_only
from twoway.data import frames
from twoway.data.distribution import MAX_ROWS, Distribution
from twoway.errors import DataError, check_whole_number
from twoway.model.counts import Counts
from twoway.model.events import Event, Names, impossible_event, parse_event
from twoway.model.hidden_tree import HiddenTree
from twoway.model.information import Estimate, signed_entropies
from twoway.model.mixture import MAX_CELLS
from twoway.model.mode import Mode, find_mode
from twoway.model.model_file import parse_model, write_model
from twoway.model.parameters import exact_parameters, parameter_numbers, stack_parameters
from twoway.model.trees import Trees
from twoway.notebook import html_text, notebook_table
from twoway.report import Report
from twoway.schema import Schema
from twoway.storage.container import read_container
from twoway.text import counted, printable, shortlist

if TYPE_CHECKING:
    from twoway.data.stored_records import Block
    from twoway.data.survey_design import Design
    from twoway.model.imputation import How
    from twoway.tabulation.result import Tabulation


class Tabulated:
    """A model, or one with replicates, of which tables can be made."""

    __slots__ = ()

    def table(
        self,
        rows: Names | None = None,
        columns: Names = (),
        *,
        nets: Mapping[str, str] | None = None,
        records: Any = None,
        design: Design | None = None,
    ) -> Tabulation:
        """Return a table for each question by a banner, with intervals where there are any; `tabulate` says more."""
        import twoway  # a public function of a layer above; tests/test_layers.py lists such calls

        model: Any = self
        return twoway.tabulate(model, rows, columns, nets=nets, records=records, design=design)


class JointPMF(Tabulated):
    """The joint probability mass function of discrete variables, as a mixture of independent ones.

    That is the model of one hidden variable, which this constructor makes. ``fit(structure="tree")`` returns one of
    several hidden variables on a tree, which has no ``weights`` and ``stacked``. Everything else works alike.

    Parameters
    ----------
    weights
        The probability of each component, shape (rank,).
    factors
        For each variable an array (n_categories, rank): column f holds the probabilities of its categories
        in component f. Sums of columns and weights may differ from one by 1e-6; they are rescaled.
    schema
        The variables.
    report
        How the model was fitted.

    Examples
    --------
    >>> from twoway.schema import Variable
    >>> schema = Schema((Variable("age", ("young", "old")), Variable("vote", ("no", "yes"))))
    >>> pmf = JointPMF([0.5, 0.5], [[[1, 0.2], [0, 0.8]], [[0.9, 0.4], [0.1, 0.6]]], schema)
    >>> pmf
    JointPMF(rank 2, 2 variables: age (2), vote (2))
    >>> round(pmf.prob({"age": "old", "vote": "yes"}), 6)
    0.24
    >>> pmf.given({"age": "old"}).marginal("vote")
    vote  probability
    no    0.4000
    yes   0.6000
    """

    __slots__ = ("counts", "factors", "library", "report", "schema", "stacked", "trees", "weights")

    schema: Schema
    """The variables."""
    weights: Floats
    """The probability of each component, shape (rank,); read-only."""
    stacked: Floats
    """The factors of all variables below one another, shape (schema.n_categories, rank); read-only."""
    factors: tuple[Floats, ...]
    """One array (n_categories, rank) for each variable: views of ``stacked``."""
    trees: Trees
    """The hidden variables: one, or those of a tree, or of several trees in a mixture."""
    report: Report | None
    """How the model was fitted, None where it was not."""
    counts: Counts | None
    """What was counted of the records or tables that the model was fitted to; None where that is not known."""
    library: str
    """The library of the frame that was fitted, in which `sample` returns records; files do not keep it."""

    def __init__(
        self, weights: ArrayLike, factors: Sequence[ArrayLike], schema: Schema, *, report: Report | None = None
    ) -> None:
        trees = Trees.of_mixture(schema, *stack_parameters(schema, weights, factors))
        self._set(schema, trees, report, None, "pandas")

    def _set(self, schema: Schema, trees: Trees, report: Report | None, counts: Counts | None, library: str) -> None:
        values: dict[str, Any] = {"schema": schema, "report": report, "counts": counts, "library": library}
        if trees.single is not None:
            trees = trees.as_mixture(schema)
            values |= {"weights": trees.trees[0].weights, "stacked": trees.stacked}
        values |= {"trees": trees, "factors": trees.factors}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Never:
        if name in ("weights", "stacked"):
            raise AttributeError(
                f"this model has {self.n_hidden} hidden variables on a tree; "
                f"only a model with one hidden variable has {name}"
            )
        raise AttributeError(f"a JointPMF has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(
            f"a JointPMF is immutable: {name!r} cannot be assigned; JointPMF(weights, factors, schema) makes a new "
            "one, with_report this one with another report"
        )

    def __delattr__(self, name: str) -> Never:
        self.__setattr__(name, None)

    @classmethod
    def from_stacked(cls, schema: Schema, weights: Floats, stacked: Floats) -> JointPMF:
        """Return the PMF of valid arrays: nothing is checked, rescaled or, where possible, copied.

        ``weights`` has the shape (rank,), ``stacked`` (schema.n_categories, rank): the factors below one another.
        """
        return cls.from_trees(schema, Trees.of_mixture(schema, weights, stacked))

    @classmethod
    def from_trees(
        cls,
        schema: Schema,
        trees: Trees,
        report: Report | None = None,
        counts: Counts | None = None,
        library: str = "pandas",
    ) -> JointPMF:
        """Return the PMF of hidden variables on trees: nothing is checked or rescaled."""
        pmf = cls.__new__(cls)
        pmf._set(schema, trees, report, counts, library)
        return pmf

    @classmethod
    def from_tree(cls, schema: Schema, tree: HiddenTree) -> JointPMF:
        """Return the PMF of hidden variables on one tree: nothing is checked or rescaled."""
        return cls.from_trees(schema, Trees(np.ones(1), (tree,)))

    @classmethod
    def from_joint(cls, joint: ArrayLike, schema: Schema) -> JointPMF:
        """Return the PMF of a small joint, which has an axis for each variable, exactly.

        Each cell of all variables but the largest is a component; cells of probability 0 need none.
        """
        return cls.from_stacked(schema, *exact_parameters(schema, joint)).sorted_by_weight()

    @classmethod
    def average(cls, pmfs: Sequence[JointPMF], shares: ArrayLike | None = None) -> JointPMF:
        """Return the mixture of several PMFs of one schema; its rank is the sum of theirs.

        Parameters
        ----------
        pmfs
            At least one.
        shares
            The weight of each PMF, equal by default. They need not sum to one.
        """
        pmfs = list(pmfs) if isinstance(pmfs, Iterable) else [pmfs]
        if not pmfs:
            raise DataError("pmfs is empty; an average needs at least one PMF")
        pmfs = [pmf_of(pmf, f"pmfs[{number}]") for number, pmf in enumerate(pmfs)]
        for number, pmf in enumerate(pmfs):
            pmfs[0].schema.check_same(pmf.schema, f"averaged PMFs must have the same schema; pmfs[{number}] differs")
        parts = np.ones(len(pmfs)) if shares is None else parameter_numbers(shares, "the shares")
        if parts.shape != (len(pmfs),) or not (np.isfinite(parts).all() and (parts >= 0).all() and parts.any()):
            raise DataError(f"shares must be {len(pmfs)} numbers, not negative and not all 0; got {shares!r}")
        parts = parts / parts.sum()
        of_trees = np.concatenate([part * pmf.trees.shares for part, pmf in zip(parts, pmfs, strict=True)])
        return cls.from_trees(pmfs[0].schema, Trees.of(of_trees, [tree for pmf in pmfs for tree in pmf.trees.trees]))

    @property
    def rank(self) -> int:
        """The number of components: the states of the hidden variable; of several, the most that any has."""
        return self.trees.rank

    @property
    def n_hidden(self) -> int:
        """The number of hidden variables: one, or more on a tree; those of all trees in a mixture."""
        return self.trees.n_hidden

    @property
    def has_zeros(self) -> bool:
        """Whether a weight, a transition or a factor holds a probability of 0."""
        return not all(matrix.all() for matrix in self.trees.matrices[1:])

    @property
    def n_parameters(self) -> int:
        """How many of its numbers are free."""
        matrices = self.trees.matrices
        if len(self.trees.trees) > 1:  # hidden copies of visible variables have none
            matrices = [matrix for matrix in matrices if not np.array_equal(matrix, np.eye(len(matrix)))]
        return sum((len(matrix) - 1) * int(matrix.shape[1]) for matrix in matrices)

    def __repr__(self) -> str:
        n = len(self.schema)
        listed = ", ".join(f"{printable(v.name)} ({len(v)})" for v in self.schema.variables[:6])
        more = f", … ({n - 6} more)" if n > 6 else ""
        hidden = f"rank {self.rank}" if self.trees.single else f"{self.n_hidden} hidden of up to {self.rank} states"
        hidden = f"mixture of {len(self.trees.trees)} trees" if len(self.trees.trees) > 1 else hidden
        return f"JointPMF({hidden}, {n} variable{'s' * (n != 1)}: {listed}{more})"

    def _repr_html_(self) -> str:
        rows, bars = [["variable", "categories", "most probable", "probability"]], []
        for index, variable in enumerate(self.schema.variables[:MAX_ROWS]):
            shares = self.factors[index] @ self.trees.state_shares(index)
            best = int(shares.argmax())
            label = printable(variable.categories[best])
            rows.append([printable(variable.name), str(len(variable)), label, f"{shares[best]:.4f}"])
            bars.append([shares[best]])
        more = len(self.schema) - len(bars)
        note = f"… {counted(more, 'more variable')}" if more > 0 else ""
        return f"<p>{html_text(repr(self).partition(':')[0])})</p>{notebook_table(rows, bars, note)}"

    def __reduce__(self) -> tuple[Callable[..., JointPMF], tuple[Any, ...]]:
        return type(self).from_trees, (self.schema, self.trees, self.report, self.counts, self.library)

    def with_report(self, report: Report | None) -> JointPMF:
        """Return the same PMF with another report."""
        return self.from_trees(self.schema, self.trees, report, self.counts, self.library)

    def with_counts(self, counts: Counts | None) -> JointPMF:
        """Return the same PMF with other counts of what it was fitted to, or without."""
        return self.from_trees(self.schema, self.trees, self.report, counts, self.library)

    def with_library(self, library: str) -> JointPMF:
        """Return the same PMF; its `sample` returns frames of another library."""
        return self.from_trees(self.schema, self.trees, self.report, self.counts, library)

    def sorted_by_weight(self) -> JointPMF:
        """Return the same PMF with its components in the order of their weights, largest first; a tree as it is."""
        if self.trees.single is None:
            return self
        order = np.argsort(-self.weights, kind="stable")
        trees = Trees.of_mixture(self.schema, self.weights[order], self.stacked[:, order])
        return self.from_trees(self.schema, trees, self.report, self.counts, self.library)

    # Probabilities

    def prob(self, event: Event) -> float:
        """Return the probability of an event.

        Parameters
        ----------
        event
            A label for each variable named, or a collection of labels any of which may hold. Variables not named are
            summed out; the empty event is certain.

        Examples
        --------
        >>> from twoway.schema import Variable
        >>> pmf = JointPMF([1], [[[0.2], [0.3], [0.5]]], Schema((Variable("age", ("18-39", "40-64", "65+")),)))
        >>> pmf.prob({"age": {"18-39", "40-64"}})
        0.5
        """
        allowed = parse_event(self.schema, event)
        if not allowed:
            return 1.0
        return min(1.0, math.exp(self.trees.log_probability(allowed)))

    def marginal(self, names: Names) -> Distribution:
        """Return the joint distribution of one variable or several, with an axis for each.

        Exact, and refused where it would have more than ten million cells.
        """
        indices = self._indices(names)
        trees = self.trees.of_variables(indices)
        if trees.n_cells > MAX_CELLS:
            raise DataError(
                f"the joint of {len(indices)} variables, {shortlist(self.schema.names[i] for i in indices)}, has "
                f"{trees.n_cells:,} cells; at most {MAX_CELLS:,} are allowed: name fewer variables"
            )
        variables = [self.schema.variables[i] for i in indices]
        return Distribution(variables, read_only(trees.joint()), library=self.library)

    def given(self, evidence: Event) -> JointPMF:
        """Return the PMF of all variables given what is known of some.

        It has the same schema and the same components in the same order; categories that the evidence
        rules out have the probability 0. Evidence that cannot occur is an error.

        Parameters
        ----------
        evidence
            A label for each variable named, or a collection of labels any of which may hold. None and NaN are ignored,
            so that a record with missing cells can be given as it is.
        """
        if (trees := self.trees.given(parse_event(self.schema, evidence))) is None:
            raise impossible_event(evidence)
        return self.from_trees(self.schema, trees, library=self.library)

    def mode(self, names: Names | None = None) -> Mode:
        """Return the most probable values of some variables together, all of them by default.

        Up to ten million cells are compared one by one. Beyond that, branch and bound searches for a proof, and
        ``proven`` is whether it found one.
        """
        indices = self._indices(self.schema.names if names is None else names)
        codes, probability, proven = find_mode(self.trees.of_variables(indices))
        variables = (self.schema.variables[index] for index in indices)
        values = {variable.name: variable.categories[code] for variable, code in zip(variables, codes, strict=True)}
        return Mode(values, min(1.0, probability), proven)

    def expect(self, name: str) -> float:
        """Return the expected value of a variable whose categories have numeric values."""
        variable = self.schema[name]
        if variable.values is None:
            raise DataError(
                f"{name!r} has no expected value: its categories {shortlist(variable.categories)} have no numeric "
                "values; give them with Variable(name, categories, values), or values = {…} in a file for --columns"
            )
        index = self.schema.index(name)
        return float(np.array(variable.values) @ (self.factors[index] @ self.trees.state_shares(index)))

    def entropy(self, names: Names, base: float | None = None, *, seed: int = 0) -> Estimate:
        """Return the entropy of one variable or several together, in nats unless another base is given.

        Exact up to ten million cells; beyond that an average over draws, with its standard error.

        Parameters
        ----------
        names
            The variables.
        base
            The base of the logarithm: 2 for bits.
        seed
            The seed of the draws, where there are any.
        """
        trees = self.trees.of_variables(self._indices(names))
        return signed_entropies(trees, [(1, range(len(trees.factors)))], base, seed)

    def mutual_information(
        self, a: Names, b: Names, given: Names | None = None, base: float | None = None, *, seed: int = 0
    ) -> Estimate:
        """Return the mutual information of two variables, or groups of them, in nats; with base 2, in bits.

        Exact up to ten million cells; beyond that an average over draws, with its standard error.

        Parameters
        ----------
        a, b
            A variable, or several taken together.
        given
            Variables to condition on: the conditional mutual information, averaged over their values.
        base
            The base of the logarithm: 2 for bits.
        seed
            The seed of the draws, where there are any.
        """
        groups = [self._indices(a), self._indices(b), [] if given is None else self._indices(given)]
        indices = [index for group in groups for index in group]
        if duplicates := [index for index in indices if indices.count(index) > 1]:
            raise DataError(f"{self.schema.names[duplicates[0]]!r} is in more than one group; groups must not overlap")
        places = iter(range(len(indices)))
        first, second, known = (list(islice(places, len(group))) for group in groups)
        terms = [(1, first + known), (1, second + known), (-1, first + second + known), (-1, known)]
        return signed_entropies(self.trees.of_variables(indices), terms, base, seed)

    def _indices(self, names: Names) -> list[int]:
        indices = self.schema.indices(names)
        if not indices:
            raise DataError(f"at least one variable is needed; known: {shortlist(self.schema.names)}")
        return indices

    # Records

    def sample(self, n: int, *, seed: int = 0, library: str | None = None) -> Any:
        """Return a frame of records drawn from the PMF; text with an order of its own is an ordered categorical.

        Parameters
        ----------
        n
            The number of records.
        seed
            The same seed gives the same records.
        library
            "pandas", "polars" or "pyarrow"; by default that of the frame which the model was fitted to, and pandas
            for a model from a file.
        """
        n = check_whole_number("the number of records to draw", n, 0, most=10**12)
        rng = np.random.default_rng(check_whole_number("seed", seed, 0))
        return frames.make_drawn_frame(self.schema.variables, self.trees.draw(n, rng), library or self.library)

    def log_prob(self, source: Any, *, threads: int | None = None) -> Floats:
        """Return the logarithm of each record's probability, shape (n_records,); missing cells are summed out.

        Parameters
        ----------
        source
            A frame, a 2-D array whose columns are the variables in order, a list of mappings or `Records`. Columns that
            are not in the schema are ignored; variables without a column count as missing.
        threads
            All cores by default.
        """
        from twoway.model.posterior import posterior_log_prob

        return self._by_block(source, lambda block: posterior_log_prob(self.trees, block), threads)

    def memberships(self, source: Any, of: str | None = None, *, threads: int | None = None) -> Floats:
        """Return Pr(component | record), shape (n_records, rank).

        A record with nothing observed has the weights. One that is impossible under the model has NaN, with a warning.

        Parameters
        ----------
        source
            What `log_prob` takes.
        of
            A variable: the memberships are those of the hidden variable that it is attached to. Only a model with
            several hidden variables needs it.
        threads
            All cores by default.
        """
        from twoway.model.imputation import warn_of_impossible
        from twoway.model.posterior import Posterior

        if of is None:
            pmf_behind(self, None, "memberships")
        index = 0 if of is None else self.schema.index(of)
        memberships = self._by_block(source, lambda block: Posterior.of(self.trees, block).memberships(index), threads)
        warn_of_impossible(np.flatnonzero(np.isnan(memberships[:, 0])), "memberships are NaN")
        return memberships

    def _by_block(self, source: Any, of_block: Callable[[Block], Floats], threads: int | None = None) -> Floats:
        """Return what is calculated from each block of records, one record's row below the other's."""
        from twoway.model.records import records_for_model

        records = records_for_model(self.schema, source)
        return np.concatenate(records.map_reduce(lambda block: [of_block(block)], operator.add, threads=threads))

    def impute(self, frame: Any, how: How = "mode", *, seed: int = 0) -> Any:
        """Return the frame with its missing cells filled; observed ones never change.

        The missing cells of a record that is impossible under the model stay missing, with a warning. To calculate with
        what was filled in, see `Bootstrap.impute`: one completed table looks surer than it is.

        The frame keeps its library, its columns and their types, as long as these can hold what fills them.
        Columns that are not in the schema pass through.

        Parameters
        ----------
        frame
            A pandas, polars (lazy ones are collected) or pyarrow frame, or a 2-D array of the variables in order.
        how
            "mode" puts the most probable category into each cell, given the record's observed ones; "mean" the
            expected value where a variable has values, else the most probable category; "sample" draws all holes of a
            record together.
        seed
            The same seed draws the same.
        """
        from twoway.model.imputation import imputed_codes, imputed_frames

        return next(imputed_frames(frame, self.schema, lambda *holes: [imputed_codes(self, *holes, how, seed)]))

    def impute_proba(self, source: Any, names: Names | None = None, library: str | None = None) -> Any:
        """Return the probability of each category of each missing cell, given the record's observed cells.

        A frame of a row for each category of each missing cell: "record", its number from 0, "variable", "category" and
        "probability". Those of a record that is impossible under the model are NaN, with a warning.

        Parameters
        ----------
        source
            What `log_prob` takes; a variable without a column is missing in every record.
        names
            The variables whose missing cells count, all by default.
        library
            That of the frame, as for `sample`. Outside of pandas categories are text.
        """
        from twoway.model.imputation import impute_proba_frame
        from twoway.model.records import records_for_model

        indices = self._indices(self.schema.names if names is None else names)
        return impute_proba_frame(self, records_for_model(self.schema, source), indices, library or self.library)

    # Files

    def save(self, path: str | os.PathLike[str], *, counts: bool = True) -> None:
        """Write the model to a file, whole or not at all; the same model gives the same bytes.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced once the new one is complete.
        counts
            Whether to keep the two-way counts that the model was fitted to. They are exact, also where they are small:
            leave them out of a file for people who may not see them.
        """
        write_model(path, self, {}, counts=counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> JointPMF:
        """Return the model in a file; anything but a valid model file raises `FileFormatError`."""
        return cls.from_trees(*parse_model(path, *read_container(path, "model")))


def pmf_of(model: Any, what: str = "the model") -> JointPMF:
    """Return a model, or the one that a `Bootstrap` has the replicates of; anything else is an error."""
    pmf = getattr(model, "pmf", model)
    if not isinstance(pmf, JointPMF):
        raise DataError(f"{what} must be a JointPMF, such as fit returns, not {type(pmf).__name__}")
    return pmf


def single_pmf(model: Any, task: str, instead: str = "") -> JointPMF:
    """Return a model that must have one hidden variable; ``task`` is what needs it, ``instead`` what does not."""
    pmf = pmf_of(model)
    if pmf.n_hidden > 1:
        raise DataError(
            f"{task} needs a model with one hidden variable, and this one has {pmf.n_hidden}; {instead}"
            "fit it with structure='single'"
        )
    return pmf


def pmf_behind(model: Any, of: str | None, task: str) -> JointPMF:
    """Return a model with one hidden variable, or of several the one that a variable is attached to.

    Its components are the states of that one, and its factors all variables given these.
    """
    pmf = pmf_of(model)
    if of is None or pmf.trees.single is not None:
        example = f"choose one by a variable attached to it, such as of={pmf.schema.names[0]!r}, or "
        return single_pmf(pmf, task, example)
    index = pmf.schema.index(of)
    if len(pmf.trees.trees) > 1:
        raise DataError(f"{task} shows one tree, and this model is a mixture of {len(pmf.trees.trees)}")
    (tree,) = pmf.trees.trees
    return JointPMF.from_tree(pmf.schema, tree.seen_from(tree.homes[index])[0])
