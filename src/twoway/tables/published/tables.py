"""Tables of one population: of any number of variables, coarser and finer, of all people or of some, and rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any

import numpy as np

from twoway.arrays import Floats
from twoway.category_labels import Label, label_key
from twoway.data.flat_counts import flat_entries
from twoway.errors import DataError, UnknownNameError, check_known, errors_at, near_miss
from twoway.schema import Schema
from twoway.storage.container import checked_content, read_container, write_container
from twoway.tables.crosstabs.cells import empty_cells_notes
from twoway.tables.crosstabs.sheet_labels import sheet_categories, sheet_label_codes
from twoway.tables.published.packing import packed_tables, unpacked_tables
from twoway.tables.published.pairs import Codes, pairs_of_table, shares_for_pairs
from twoway.tables.published.places import TablePlaces
from twoway.tables.published.ranges import in_order_of_ranges
from twoway.tables.published.rules import Box, Rule, contradicted_cell, listed_rules, possible_boxes
from twoway.tables.published.table import Labels, PublishedMean, PublishedTable, named_labels, published_labels
from twoway.tables.tables import Tables
from twoway.text import counted, crossed_text, shortlist

Groups = Mapping[str, Mapping[Label, Labels]]


@dataclass(frozen=True, eq=False, repr=False)
class PublishedTables:
    """All that was published about a population; `tw.fit` finds the joint distribution that it leaves most open.

    Tables may have one variable or many, finer or coarser categories, and be about all people or some of them. All of
    them are sums of cells of the joint, and enter one likelihood. `of` makes it from tables and declarations.

    Parameters
    ----------
    schema
        The variables with their finest categories.
    tables
        The tables.
    means
        Published means.
    groups
        For each variable, labels that stand for several of its categories.
    impossible
        Combinations that nobody has: for each rule the categories of two or more variables.
    exact
        The sets of variables whose tables a population must have exactly.
    """

    schema: Schema
    tables: tuple[PublishedTable, ...]
    means: tuple[PublishedMean, ...] = ()
    groups: Groups = field(default_factory=dict)
    impossible: tuple[Mapping[str, Labels], ...] = ()
    exact: tuple[tuple[str, ...], ...] = ()
    reading_notes: tuple[str, ...] = ()
    """What a reader should know about how they were read."""

    @classmethod
    def of(
        cls,
        tables: Any,
        *,
        means: Iterable[PublishedMean] = (),
        groups: Groups | None = None,
        impossible: Iterable[Mapping[str, Any]] = (),
        exact: Iterable[str | Sequence[str]] = (),
        schema: Schema | None = None,
    ) -> PublishedTables:
        """Return published tables and what is known besides.

        Parameters
        ----------
        tables
            `PublishedTable`s, among which may be `Tables`; or a mapping of names of variables to numbers, as
            `PublishedTable.of` takes them.
        means
            Published means.
        groups
            Labels that stand for several categories: ``{"age": {"65+": ["65-74", "75+"]}}``.
        impossible
            Combinations that nobody has: ``[{"age": "0-14", "marital": ["married", "widowed"]}]``.
        exact
            The variables of tables that must hold exactly: ``["age", ("age", "sex")]``. The margins of single
            variables hold in the model itself; tables of several in a population made from it.
        schema
            Variables and categories; by default those of the tables, in order of appearance. Labels stay what they are:
            text that looks like a number is a number only where another table has numbers for the variable.

        Examples
        --------
        >>> by_sex = {("0-14", "m"): 100, ("0-14", "f"): 90, ("15-64", "m"): 300, ("15-64", "f"): 310}
        >>> by_sex |= {("65+", "m"): 80, ("65+", "f"): 110}
        >>> works = {("15+", "yes"): 520, ("15+", "no"): 280}
        >>> PublishedTables.of(
        ...     [
        ...         PublishedTable.of(["age", "sex"], by_sex),
        ...         PublishedTable.of(["age", "works"], works, within={"age": "15+"}),
        ...     ],
        ...     groups={"age": {"15+": ["15-64", "65+"]}},
        ... )
        <PublishedTables: 2 tables of 3 variables>
        """
        if isinstance(tables, Mapping):
            tables = [PublishedTable.of(names, numbers) for names, numbers in tables.items()]
        own = [table for source in tables for table in as_published_tables(source)]
        if not own:
            raise DataError("there is no table; at least one is needed")
        coarse = {name: named_labels(labels) for name, labels in (groups or {}).items()}
        schema = find_published_schema(own, coarse) if schema is None else schema
        rules = tuple(map(named_labels, listed_rules(impossible)))
        return cls(schema, tuple(own), tuple(means), coarse, rules, tuple(map(published_labels, exact)))

    def __post_init__(self) -> None:
        check_known("variable", self.schema.names, *self.groups, where=" with groups of categories")
        for table in self.tables:
            with errors_at(table.place()):
                self._check_table(table)
        for mean in self.means:
            if self.schema[mean.variable].values is None:
                raise DataError(f"the mean of {mean.variable!r} needs categories that are numbers, or values for them")
            self.universe(mean.within)
        for names in self.exact:
            self.schema.indices(names)
            if not any(set(names) <= set(table.variables) for table in self.tables):
                raise DataError(f"exact: no table has {crossed_text(names)}")
        self._check_rules()

    def codes(self, name: str, label: Label) -> Codes:
        """Return the categories, by position, that a label of a variable stands for."""
        members = next(
            (own for group, own in self.groups.get(name, {}).items() if label_key(group) == label_key(label)), (label,)
        )
        return tuple(sorted(sheet_label_codes(self.schema, name, members, f"label {label!r} of {name!r}")))

    def axis_codes(self, table: PublishedTable, axis: int) -> list[Codes]:
        """Return what each category of a table's axis stands for."""
        return [self.codes(table.variables[axis], label) for label in table.categories[axis]]

    def universe(self, within: Mapping[str, Labels]) -> dict[int, Codes]:
        """Return the categories that some people have, for the position of each variable."""
        named = {}
        for name, labels in within.items():
            codes = sorted({code for label in labels for code in self.codes(name, label)})
            if not codes:
                raise DataError(f"the universe has no category of {name!r}")
            if len(codes) < len(self.schema[name]):
                named[self.schema.index(name)] = tuple(codes)
        return named

    def _check_table(self, table: PublishedTable) -> None:
        universe = self.universe(table.within)
        for axis, name in enumerate(table.variables):
            codes = [code for some in self.axis_codes(table, axis) for code in some]
            labels = self.schema[name].categories
            if len(set(codes)) < len(codes):
                twice = next(code for code in codes if codes.count(code) > 1)
                raise DataError(f"{labels[twice]!r} of {name!r} is in two of its categories")
            wanted = set(universe.get(self.schema.index(name), range(len(labels))))
            if extra := set(codes) - wanted:
                raise DataError(f"it has {labels[min(extra)]!r} of {name!r}, which is outside its universe")
            if lacking := wanted - set(codes):
                raise DataError(
                    f"it lacks {shortlist([labels[code] for code in sorted(lacking)])} of {name!r}; give zeros, or say "
                    f"within={{{name!r}: …}} if it is about the others only, or groups={{{name!r}: …}} if a label "
                    "includes them"
                )

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The impossible combinations: codes for the position of each variable."""
        return tuple(
            {
                self.schema.index(name): frozenset(code for label in labels for code in self.codes(name, label))
                for name, labels in named.items()
            }
            for named in self.impossible
        )

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Disjoint products of categories that make up all that is possible."""
        return possible_boxes(self.schema.sizes, self.rules)

    def _check_rules(self) -> None:
        """Raise where a rule has one variable only, or a table counts people that it says cannot be."""
        if alone := [named for named in self.impossible if len(named) < 2]:
            raise DataError(f"an impossible combination needs two variables or more; got {dict(alone[0])!r}")
        for rule, named in zip(self.rules, self.impossible, strict=True):
            for table in self.tables:
                if not named.keys() <= {*table.variables}:
                    continue
                places = TablePlaces.of(self, table)
                if (cell := contradicted_cell(rule, places.variables, places.cell_of, table.low)) is not None:
                    index = tuple(map(int, np.unravel_index(cell, table.counts.shape)))
                    labels = [table.categories[axis][code] for axis, code in enumerate(index)]
                    raise DataError(
                        f"{table.place(index)}: it counts {table.counts[index]:g} people with {shortlist(labels)}, "
                        f"which is declared impossible: {dict(named)!r}"
                    )

    def __len__(self) -> int:
        return len(self.tables)

    def __repr__(self) -> str:
        rules = f", {counted(len(self.impossible), 'impossible combination')}" if self.impossible else ""
        of = f"{counted(len(self.tables), 'table')} of {counted(len(self.schema), 'variable')}"
        return f"<PublishedTables: {of}{rules}>"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed of the tables, and how they were read."""
        empty = (empty_cells_notes(t.name, t.variables, t.categories, t.counts) for t in self.tables)
        return (*self.reading_notes, *chain.from_iterable(table.notes for table in self.tables), *chain(*empty))

    @property
    def totals(self) -> Floats:
        """The number of people in each table, shape (n_tables,)."""
        return np.array([table.counts.sum() for table in self.tables])

    def subject_to(
        self, *, impossible: Iterable[Mapping[str, Any]] = (), exact: Iterable[str | Sequence[str]] = ()
    ) -> PublishedTables:
        """Return the same with more rules: combinations that nobody has, and tables that must hold exactly."""
        rules = tuple(map(named_labels, listed_rules(impossible)))
        return replace(self, impossible=(*self.impossible, *rules), exact=(*self.exact, *map(published_labels, exact)))

    @property
    def names_beyond_pairs(self) -> frozenset[str]:
        """The variables that are in tables of more than two, or have a mean."""
        sets = [{*table.variables, *table.within} for table in self.tables]
        of_means = [{mean.variable, *mean.within} for mean in self.means]
        return frozenset().union(*(names for names in sets if len(names) > 2), *of_means)

    def is_plain(self, table: PublishedTable) -> bool:
        """Return whether a table is about all people, by the finest categories."""
        is_fine = all(len(codes) == 1 for axis in range(len(table.variables)) for codes in self.axis_codes(table, axis))
        return is_fine and not self.universe(table.within) and not table.given

    @property
    def plain(self) -> tuple[PublishedTable, ...]:
        """The tables of all people, by the finest categories, in which every number is known."""
        return tuple(table for table in self.tables if table.is_known and self.is_plain(table))

    def is_exact(self, table: PublishedTable) -> bool:
        """Return whether a table must hold exactly."""
        return any(set(names) == set(table.variables) for names in self.exact)

    @property
    def exact_margins(self) -> dict[int, tuple[list[Codes], Floats]]:
        """The shares of the variables whose own shares must hold exactly, by position."""
        return {self.schema.index(names[0]): self.margin_of(names[0]) for names in self.exact if len(names) == 1}

    @cached_property
    def single_shares(self) -> list[Floats]:
        """The share of each finest category of each variable, as far as tables tell; equal where they do not."""
        return [shares_for_pairs(self, position) for position in range(len(self.schema))]

    def pairs(self, *, only_plain: bool = False) -> Tables:
        """Return the two-way tables that these tables have, in the finest categories.

        What a coarser table leaves open is filled by the shares of single variables, as if they were independent.
        ``only_plain`` leaves out whatever had to be filled.
        """
        tables = self.plain if only_plain else self.tables
        entries = [entry for table in tables for entry in pairs_of_table(self, table)]
        return Tables(self.schema, *flat_entries(2, entries), () if only_plain else self.notes)

    def triples(self) -> Tables:
        """Return the plain three-way tables."""
        own = [(TablePlaces.of(self, table), table) for table in self.plain if len(table.variables) == 3]
        entries = [(places.variables, table.counts.ravel()[places.cell_of], table.weight) for places, table in own]
        return Tables(self.schema, *flat_entries(3, entries))

    def margin_of(self, name: str) -> tuple[list[Codes], Floats]:
        """Return the shares of sets of a variable's categories, by the table with the finest sets."""
        holding = sorted(self.holding([name]), key=lambda table: len(table.variables))
        if not holding:
            raise DataError(f"exact: no table of all people has {name!r}, each category with its number of people")
        finest = max((table.margin([name]) for table in holding), key=lambda table: table.counts.size)
        return self.axis_codes(finest, 0), finest.shares

    def holding(self, names: Sequence[str]) -> list[PublishedTable]:
        """Return the tables of all people that have some variables, and all their numbers."""
        is_whole = (table.is_known and not table.given and not self.universe(table.within) for table in self.tables)
        return [t for t, whole in zip(self.tables, is_whole, strict=True) if whole and set(names) <= set(t.variables)]

    @property
    def pairs_shown(self) -> list[tuple[int, int]]:
        """The positions of each two variables that some table is about, in coarser categories or of some people too."""
        sets = ({*self.schema.indices(table.variables), *self.universe(table.within)} for table in self.tables)
        return sorted({pair for positions in sets for pair in combinations(sorted(positions), 2)})

    def unknown_parts(self, name: str) -> dict[str, list[int]]:
        """Return the people of whom no table tells a variable: codes of categories, by the name of another variable.

        Those of 0-14, where a variable is known of ages from 15 on. Where impossible combinations leave them one value,
        it is known.
        """
        position, parts = self.schema.index(name), dict[str, list[int]]()
        universes = [self.universe(table.within) for table in self.tables if name in table.variables]
        for other in sorted({key for universe in universes for key in universe} - {position}):
            if not all(set(universe) == {other} for universe in universes):
                continue
            known = {code for universe in universes for code in universe[other]}
            for code in sorted(set(range(self.schema.sizes[other])) - known):
                ruled = [rule for rule in self.rules if set(rule) == {position, other} and code in rule[other]]
                impossible = {own for rule in ruled for own in rule[position]}
                if len(impossible) < self.schema.sizes[position] - 1:
                    parts.setdefault(self.schema.names[other], []).append(code)
        return parts

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file, whole or not at all."""
        write_container(path, "published", *packed_tables(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PublishedTables:
        """Return what `save` wrote."""
        header, arrays = read_container(path, "published")
        with checked_content(path, "file of published tables"):
            return cls(**unpacked_tables(header, arrays))


def as_published_tables(given: Any) -> list[PublishedTable]:
    """Return tables of any kind as published ones."""
    if isinstance(given, PublishedTable):
        return [given]
    if not isinstance(given, Tables):
        raise DataError(f"tables must be PublishedTable or Tables; got {type(given).__name__}")
    made = []
    for index, names in enumerate(given.names):
        counts = given.array(index)
        labels = tuple(given.schema[name].categories for name in names)
        made.append(PublishedTable(names, labels, counts, counts, counts, weight=float(given.weights[index])))
    return made


def find_published_schema(tables: Sequence[PublishedTable], groups: Groups, *, is_typed: bool = True) -> Schema:
    """Return the variables of tables with their finest categories; labels of files, which are all text, are untyped."""
    shown: dict[str, list[tuple[Label, str]]] = {}
    known = list(dict.fromkeys(name for table in tables for name in table.variables))
    for table in tables:
        for name in table.within:
            if name not in known and (hint := near_miss(name, [*known])) != ";":
                raise UnknownNameError(
                    f"{table.place()}: no table has the variable {name!r} of within{hint} known: {shortlist(known)}; "
                    "if it is another variable, list its categories in a schema"
                )
        for name, labels in (*zip(table.variables, table.categories, strict=True), *table.within.items()):
            coarse = {label_key(label) for label in groups.get(name, {})}
            own = shown.setdefault(name, [])
            own += [(label, table.name) for label in labels if label_key(label) not in coarse]
    for name, members in groups.items():
        if name in shown:
            shown[name] += [(label, "groups") for own in members.values() for label in own]
    categories = {name: sheet_categories(name, labels, is_typed=is_typed) for name, labels in shown.items()}
    return Schema.found({name: in_order_of_ranges(labels) for name, labels in categories.items()})
