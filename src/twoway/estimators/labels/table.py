"""Labels of items by annotators: read from a long table, kept compressed, with gold labels where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from twoway.arrays import Bools, Floats, Ints
from twoway.category_labels import Label, plain_label, sort_labels
from twoway.data.frames import frame_in_memory
from twoway.data.records import Records
from twoway.errors import DataError, check_known, unknown_name, warn_caller
from twoway.estimators.long_tables import (
    long_table_cells,
    long_table_columns,
    long_table_names,
    long_table_records,
    read_long_table,
    shown_name,
)
from twoway.schema import Schema, Variable
from twoway.text import brief, shortlist

# Labels with more different values than this are answers of another kind, such as numbers or free text.
_MOST_CLASSES = 200
_ALLOWED = "labels must be a frame with columns of items, annotators and labels, or a tuple of three arrays"
_NEED = "each label needs its item and annotator"


@dataclass(frozen=True)
class LabelTable:
    """The labels, ordered by item, then by annotator."""

    items: pd.Index
    annotators: pd.Index
    classes: tuple[Label, ...]
    item_codes: Ints
    """(n_labels,), as are the two below: the item of each label."""
    annotator_codes: Ints
    """The number of annotators is the code of anybody who is not among them."""
    label_codes: Ints
    gold: Ints
    """(n_items,): the class that is known for each item, -1 where none is."""

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def cells(self) -> Ints:
        """The position of each label in arrays with a row per annotator and label, (n_labels,)."""
        return self.annotator_codes * self.n_classes + self.label_codes

    @cached_property
    def records(self) -> Records:
        """A record per item. Its variables are the annotators, anybody else, and last the truth where gold shows it.

        A record may show several labels of "anybody", so it suits the E-step, but not what counts pairs of variables.
        """
        n_others = (len(self.annotators) + 1) * self.n_classes
        known = np.flatnonzero(self.gold >= 0)
        items = np.concatenate([self.item_codes, known])
        cells = np.concatenate([self.cells, n_others + self.gold[known]])
        classes = tuple(range(self.n_classes))
        names = [*map(str, range(len(self.annotators))), "anybody", "truth"]
        schema = Schema(tuple(Variable(name, classes) for name in names))
        order = np.argsort(items, kind="stable")
        return long_table_records(schema, items[order], cells[order], len(self.items))

    @cached_property
    def votes(self) -> Floats:
        """The share of each class among an item's labels, (n_items, n_classes); 1 for gold, equal where no label is."""
        n_items, n_classes = len(self.items), self.n_classes
        counts = np.bincount(self.item_codes * n_classes + self.label_codes, minlength=n_items * n_classes)
        votes: Floats = counts.reshape(n_items, n_classes).astype(np.float64)
        votes[votes.sum(axis=1) == 0] = 1.0
        known = np.flatnonzero(self.gold >= 0)
        votes[known] = np.eye(n_classes)[self.gold[known]]
        votes /= votes.sum(axis=1, keepdims=True)
        return votes

    @cached_property
    def largest_shares(self) -> Floats:
        """The largest share of the items that each class can have, (n_classes,).

        A class that gets its own label more often than any other label gets it at least as often as by chance.
        """
        n_classes = self.n_classes
        labelled = np.bincount(self.label_codes, minlength=n_classes) / max(len(self.label_codes), 1)
        known = np.bincount(self.gold[self.gold >= 0], minlength=n_classes) / len(self.items)
        return np.minimum(n_classes * labelled + known, 1.0)

    def sums(self, of_item: Floats) -> Floats:
        """Return the sums over labels of numbers (n_items, n_classes) of their items: (n_annotators + 1, label, class).

        The last ones are those of annotators who are not known.
        """
        shape = (len(self.annotators) + 1, self.n_classes, self.n_classes)
        n_cells = shape[0] * shape[1]
        sums = np.empty((n_cells, self.n_classes))
        for place, column in enumerate(of_item.T):
            sums[:, place] = np.bincount(self.cells, column[self.item_codes], n_cells)
        return sums.reshape(shape)

    def only(self, labels: Bools | Ints) -> LabelTable:
        """Return the table with some labels, by marks (n_labels,) or positions; every item and annotator stays."""
        codes = {name: getattr(self, name)[labels] for name in ("item_codes", "annotator_codes", "label_codes")}
        return replace(self, **codes)

    def grouped(self, group_of_annotator: Ints) -> Records:
        """Return a record per item whose variables are groups of annotators, each with its first label of the item."""
        n_groups = int(group_of_annotator.max()) + 1
        keys, first = np.unique(
            self.item_codes * n_groups + group_of_annotator[self.annotator_codes], return_index=True
        )
        schema = Schema(tuple(Variable(str(group), tuple(range(self.n_classes))) for group in range(n_groups)))
        items, groups = np.divmod(keys, n_groups)
        return long_table_records(schema, items, groups * self.n_classes + self.label_codes[first], len(self.items))

    def with_classes(self, classes: tuple[Label, ...]) -> LabelTable:
        """Return the table with other classes, among which are its own."""
        return replace(self, classes=classes, label_codes=_label_codes_among(classes, self.classes)[self.label_codes])


def read_labels(
    source: Any, columns: Sequence[str], *, labels: Any = None, gold: Any = None, missing: Sequence[Any] = ()
) -> LabelTable:
    """Return the labels in a long table.

    Parameters
    ----------
    source
        A frame or a mapping with a row per label, or a tuple of arrays: items, annotators and labels.
    columns
        The names of the columns: item, annotator, label.
    labels
        The labels, where the source does not hold them.
    gold
        The known classes: a mapping or a pandas Series from item to label, or a frame with the column of the items and
        one more.
    missing
        Further labels that mean "no label".
    """
    table = _read_label_rows(source, columns, labels, missing)
    gold_items, gold_labels = _read_gold_labels(gold, columns)
    if len(gold_labels):
        codes, gold_classes = _label_classes(gold_labels, "gold", missing)
        known = Variable(columns[2], table.classes)
        if new := [label for label in gold_classes if known.find(label) is None]:
            table = table.with_classes(tuple(sort_labels([*table.classes, *new])))
        codes = _label_codes_among(table.classes, gold_classes)[codes]
        table = _with_gold_labels(table, pd.Index(gold_items[codes >= 0]), codes[codes >= 0])
    return _ordered_labels(table)


def read_new_labels(source: Any, columns: Sequence[str], known: LabelTable, missing: Sequence[Any]) -> LabelTable:
    """Return the labels in a long table, of any items, by the annotators and the classes of another table."""
    table = _read_label_rows(source, columns, None, missing)
    positions = known.annotators.get_indexer(table.annotators)
    if (positions < 0).any():
        new = shortlist(table.annotators[positions < 0].tolist())
        warn_caller(f"annotators not seen in training are treated as average annotators: {new}")
    positions = np.where(positions < 0, len(known.annotators), positions).astype(np.int64)
    check_known("label", known.classes, *table.classes, where=" among those of training")
    # New annotators keep separate codes until duplicates are found.
    table = _ordered_labels(table.with_classes(known.classes))
    return replace(table, annotators=known.annotators, annotator_codes=positions[table.annotator_codes])


def _read_label_rows(source: Any, columns: Sequence[str], labels: Any, missing: Sequence[Any]) -> LabelTable:
    """Return the rows of a long table as they are, with a code of -1 where a label is missing, and without gold."""
    if isinstance(source, tuple | list):
        arrays = [*source, *([] if labels is None else [labels])]
        if len(arrays) != 3:
            raise DataError(f"labels are three arrays: items, annotators and labels; got {len(arrays)}")
        source, labels = dict(zip(columns, arrays, strict=True)), None
    item_cells, annotator_cells, label_cells = read_long_table(source, columns, "labels", _ALLOWED, labels)
    items, item_codes = long_table_names(item_cells, columns[0], _NEED)
    annotators, annotator_codes = long_table_names(annotator_cells, columns[1], _NEED)
    label_codes, classes = _label_classes(label_cells, columns[2], missing)
    no_gold = np.full(len(items), -1)
    return LabelTable(items, annotators, classes, item_codes, annotator_codes, label_codes, no_gold)


def _ordered_labels(table: LabelTable) -> LabelTable:
    """Return the labels by item and annotator, each once, those that are missing left out.

    An annotator who gave an item two labels is an error.
    """
    table = table.only(table.label_codes >= 0)
    keys = table.item_codes * len(table.annotators) + table.annotator_codes
    order = np.argsort(keys, kind="stable")
    keys, labels = keys[order], table.label_codes[order]
    again = np.concatenate([[False], np.diff(keys) == 0])
    contradicts = np.flatnonzero(again & np.concatenate([[False], np.diff(labels) != 0]))
    if len(contradicts):
        item, annotator = divmod(int(keys[contradicts[0]]), len(table.annotators))
        two = (table.classes[labels[place]] for place in (contradicts[0] - 1, contradicts[0]))
        raise DataError(
            f"annotator {shown_name(table.annotators, annotator)} gave item {shown_name(table.items, item)} two "
            f"labels, {' and '.join(map(brief, two))}; keep one of them, for example the latest"
        )
    if n_again := np.count_nonzero(again):
        warn_caller(f"{n_again:,} labels repeat one by the same annotator for the same item; each counts once")
    return table.only(order[~again])


def _label_classes(cells: Any, name: str, missing: Sequence[Any]) -> tuple[Ints, tuple[Label, ...]]:
    """Return the class of each label, -1 where it is missing, and the classes that occur."""
    if not len(cells):
        raise DataError(f"column {name!r} has no labels")
    records = Records({name: cells}, missing=missing)
    (declared,) = records.schema
    # A class that nobody gave is left out: it would be taken for whatever the others do not explain.
    used, codes = np.unique(records.codes()[:, 0], return_inverse=True)
    classes = tuple(declared.categories[code] for code in used if code >= 0)
    if len(classes) > _MOST_CLASSES:
        raise DataError(
            f"column {name!r} has {len(classes):,} different labels, but at most {_MOST_CLASSES} classes are allowed: "
            "does it hold numbers or free text?"
        )
    return codes.astype(np.int64) - int(used[0] < 0), classes


def _label_codes_among(classes: tuple[Label, ...], labels: tuple[Label, ...]) -> Ints:
    """Return the code of each label among classes; the last one, for -1, stays -1."""
    variable = Variable("label", classes)
    return np.array([*map(variable.code, labels), -1])


def _read_gold_labels(gold: Any, columns: Sequence[str]) -> tuple[Any, Any]:
    """Return the items with a known class, as an array, and their classes."""
    if gold is None:
        return [], []
    if isinstance(gold, Mapping):
        gold = pd.Series([*gold.values()], index=pd.Index([*gold], dtype=object).infer_objects(), dtype=object)
    if isinstance(gold, pd.Series):
        return gold.index.to_numpy(), long_table_cells(gold)
    gold = frame_in_memory(gold)
    names = long_table_columns(gold, _ALLOWED)
    others = [name for name in names if name != columns[0]]
    classes = others[0] if len(others) == 1 else columns[2]
    item_cells, labels = read_long_table(gold, (columns[0], classes), "gold labels", _ALLOWED)
    items, codes = long_table_names(item_cells, columns[0], _NEED)
    return items.to_numpy()[codes], labels


def _with_gold_labels(table: LabelTable, gold_items: pd.Index, gold_codes: Ints) -> LabelTable:
    """Return a table with the known classes of items, including items that no annotator labelled.

    Gold labels that contradict each other are an error, and so are gold labels of unlabelled items alone.
    """
    items = table.items
    is_new = items.get_indexer(gold_items) < 0
    if is_new.any():
        if is_new.all():
            where = " among those that annotators labelled, nor any other item of the gold labels"
            raise unknown_name("item", plain_label(gold_items[0]), items.tolist(), where=where)
        new = gold_items[is_new].unique()
        some = shortlist(new.tolist(), 5)
        warn_caller(f"gold labels of items that no annotator labelled count for the class frequencies only: {some}")
        items = items.append(new)
    places = items.get_indexer(gold_items)
    known = np.full(len(items), -1)
    known[places] = gold_codes
    contradicts = np.flatnonzero(known[places] != gold_codes)
    if len(contradicts):
        item = int(places[contradicts[0]])
        two = (table.classes[code] for code in (gold_codes[contradicts[0]], known[item]))
        raise DataError(
            f"item {shown_name(items, item)} has two gold labels, {' and '.join(map(brief, two))}; keep the right one"
        )
    return replace(table, items=items, gold=known)
