"""What the columns of files seem to be, found in one pass over them, and as text for people to check and edit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twoway.category_labels import Label, label_key, sort_labels
from twoway.data.binning import make_bins, needs_bins
from twoway.data.coding import coded_labels
from twoway.data.columns import Column, Columns
from twoway.data.files.file_set import find_files
from twoway.data.files.file_table import FileTable
from twoway.data.files.formats import FilePath
from twoway.data.missing import MissingLabels, clean_label, missing_key
from twoway.text import printable

MOST_LABELS = 1000
"""A column of text with more labels is hardly one of categories."""
_MOST_COUNTED = 50_000
_FEW = 20
_N_BINS = 5
_FEWEST = 3
_WEIGHT = re.compile(r"(.*[_.])?w?(weight|wgt|wt|pond)s?([_.].*|\d*)|w", re.IGNORECASE)
_REPLICATES = re.compile(r"(.*?(?:rep|brr|jk|bsw|boot|pwgtp|fay|wgt|wt|weight)\w*?)[_.]?\d+", re.IGNORECASE)
_OF_DESIGN = {
    "strata": re.compile(r"(.*[_.])?(strat(a|um|id)?|sdmvstra|v?stratum)", re.IGNORECASE),
    "units": re.compile(r"(.*[_.])?(psu|cluster|clu?sid|sdmvpsu|v?psu|primary_unit)", re.IGNORECASE),
    "population": re.compile(r"(.*[_.])?(fpc|popsize|population)", re.IGNORECASE),
}
"""Names of columns that say how a sample was drawn, by the option of `twoway fit` that takes them."""
_MEMBER = re.compile(r"(.+?)[_.]?(\d+|[a-z])$", re.IGNORECASE)


@dataclass
class _Found:
    """The labels of a column, how often each occurs, and whether these are all."""

    counts: Counter[Label] = field(default_factory=Counter)
    n_cells: int = 0
    is_whole: bool = True

    def add(self, labels: Sequence[object], codes: Any, name: str) -> None:
        """Count the cells of a slice."""
        times = np.bincount(np.asarray(codes, dtype=np.int64) + 1, minlength=len(labels) + 1)[1:]
        self.n_cells += int(times.sum())
        if self.is_whole:
            for raw, n in zip(labels, times.tolist(), strict=True):
                if n and (label := clean_label(raw, name)) is not None:
                    self.counts[label] += n
            self.is_whole = len(self.counts) <= _MOST_COUNTED


def find_columns(path: FilePath, missing: MissingLabels | None = None) -> tuple[Columns, dict[str, list[str]]]:
    """Return what the columns of files seem to be, and notes on each: what was seen, and why it is so declared.

    Parameters
    ----------
    path
        What `find_files` takes.
    missing
        Labels that mean "not observed", beside those that the files declare.
    """
    files = find_files(path)
    table = FileTable.open(files, missing=missing or MissingLabels())
    found = {name: _Found() for name in files.columns}
    for piece in table.pieces():
        for part in piece.read():
            for name in found:
                found[name].add(*coded_labels(part.column(name)), name)
    letters: dict[str, dict[Label, int]] = {}
    for (name, code), n in sum(files.letters.values(), Counter[tuple[str, Label]]()).items():
        letters.setdefault(name, {})[code] = n
    columns, notes = {}, {}
    for name, seen in found.items():
        columns[name], notes[name] = _described(name, seen, files.declared[name], letters.get(name, {}))
    alike = [name for name in columns if _WEIGHT.fullmatch(name) and _are_weights(found[name])]
    replicates = _replicates(found)
    weights = files.weights or next((name for name in alike if name not in replicates), None)
    for name in list(columns):
        declared = Column(label=columns[name].label, use=name == weights)
        if name == weights:
            columns[name], notes[name] = declared, ["the weight of each record"]
        elif name in replicates:
            columns[name], notes[name] = declared, [f"replicate weights? --replicate-weights '{replicates[name]}*'"]
        elif name in alike:
            columns[name], notes[name] = declared, [f"weights of another kind? --weights {name!r}"]
        elif option := next((option for option, pattern in _OF_DESIGN.items() if pattern.fullmatch(name)), None):
            notes[name].append(f"how the sample was drawn? --{option} {name!r}")
            # Strata are most often questions, too.
            columns[name] = columns[name] if option == "strata" else declared
    sets = {**_similar_columns(columns, found), **files.declared.sets}
    return Columns(columns, weights=weights, sets=sets), notes


def _described(name: str, seen: _Found, declared: Column, letters: Mapping[Label, int]) -> tuple[Column, list[str]]:
    """Return what a column is, and why."""
    markers = MissingLabels((), {name: declared.missing or ()}).markers(name)
    lost = {label: n for label, n in seen.counts.items() if missing_key(label) in markers}
    gone = sorted({**letters, **lost}.items(), key=str)
    notes = [f"missing: {printable(declared.shown_code(code), 200) or 'empty'} in {_n_cells(n)}" for code, n in gone]
    counts = {label: n for label, n in seen.counts.items() if label not in lost}
    n_cells = seen.n_cells - sum(lost.values())
    if not counts:
        return replace(declared, use=False), [*notes, "no observed cell"]
    labels = sort_labels(counts)
    numbers = np.array(labels, dtype=np.float64) if all(label_key(label)[0] == "number" for label in labels) else None
    is_whole = numbers is not None and bool((numbers == np.rint(numbers)).all())
    if not declared.categories and len(counts) == n_cells > _FEW and (numbers is None or is_whole):
        return replace(declared, use=False), [*notes, f"an identifier? {n_cells:,} cells, all different"]
    if numbers is None and len(counts) > MOST_LABELS:
        return replace(declared, use=False), [*notes, f"free text? {len(counts):,} different labels"]
    if numbers is not None and not declared.categories and needs_bins(numbers):
        bins = make_bins(name, numbers, np.array([counts[label] for label in labels], dtype=np.float64), n_bins=_N_BINS)
        seen_numbers = f"{len(counts):,} different numbers, {numbers[0]:g} to {numbers[-1]:g}"
        return replace(declared, cuts=bins.variable.edges or ()), [*notes, seen_numbers]
    categories = dict(declared.codes)
    shown = {label: categories.get(label, label) for label in labels}
    kind = "text" if numbers is None else "numbers"
    n_shown = len(set(shown.values()))
    notes.insert(0, f"{kind}: {n_shown} {'category' if n_shown == 1 else 'categories'} in {_n_cells(n_cells)}")
    return replace(declared, categories=shown if declared.categories or len(shown) <= _FEW else {}), notes


def _n_cells(n: int) -> str:
    return "1 cell" if n == 1 else f"{n:,} cells"


def _are_weights(seen: _Found) -> bool:
    """Return whether cells are numbers of 0 or more, some of them with fractions."""
    numbers = [label for label in seen.counts if label_key(label)[0] == "number"]
    if not numbers or len(numbers) < len(seen.counts):
        return False
    return min(map(float, numbers)) >= 0 and any(isinstance(label, float) for label in numbers)


def _replicates(found: Mapping[str, _Found]) -> dict[str, str]:
    """Return columns that look like replicate weights, each with what the names of all begin with."""
    groups: dict[str, list[str]] = {}
    for name, seen in found.items():
        numbered = _REPLICATES.fullmatch(name)
        if numbered and _are_weights(seen):
            groups.setdefault(numbered[1], []).append(name)
    return {name: stem for stem, names in groups.items() if len(names) >= _FEWEST for name in names}


def _similar_columns(columns: Mapping[str, Column], found: Mapping[str, _Found]) -> dict[str, dict[str, Any]]:
    """Return what looks like multiple-choice questions: numbered columns of one name, all with one code alone."""
    groups: dict[tuple[str, Label], list[str]] = {}
    for name in columns:
        numbered = _MEMBER.fullmatch(name)
        if numbered and len(found[name].counts) == 1:
            (ticked,) = found[name].counts
            groups.setdefault((numbered[1], ticked), []).append(name)
    return {
        stem: {"columns": names, "chosen": chosen} for (stem, chosen), names in groups.items() if len(names) >= _FEWEST
    }
