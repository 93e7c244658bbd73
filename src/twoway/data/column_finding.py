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
from twoway.data.coding import code_counts, coded_labels
from twoway.data.columns import Column, Columns
from twoway.data.files.file_set import find_files
from twoway.data.files.file_table import FileTable
from twoway.data.files.formats import FilePath
from twoway.data.missing import MissingLabels, label_unless_missing, missing_key
from twoway.data.raw_columns import codes_read_as_missing
from twoway.text import counted, printable

MOST_LABELS = 1000
"""A column of text with more labels is hardly one of categories."""
_MOST_COUNTED = 50_000
_FEW = 20
_N_BINS = 5
_FEWEST = 3
WEIGHT_NAME = re.compile(r"(.*[_.])?w?(weight|wgt|wt|pond)s?([_.].*|\d*)|w", re.IGNORECASE)
_REPLICATES = re.compile(r"(.*?(?:rep|brr|jk|bsw|boot|pwgtp|fay|wgt|wt|weight)\w*?)[_.]?\d+", re.IGNORECASE)
_OF_DESIGN = {
    "strata": re.compile(r"(.*[_.])?(strat(a|um|id)?|sdmvstra|v?stratum)", re.IGNORECASE),
    "units": re.compile(r"(.*[_.])?(psu|cluster|clu?sid|sdmvpsu|v?psu|primary_unit)", re.IGNORECASE),
    "population": re.compile(r"(.*[_.])?(fpc|popsize|population)", re.IGNORECASE),
}
"""Names of columns that say how a sample was drawn, by the option of `twoway fit` that takes them."""
_MEMBER = re.compile(r"(.+?)[_.]?(\d+|[a-z])$", re.IGNORECASE)


@dataclass
class _FoundColumn:
    """The labels of a column, how often each occurs, and whether these are all."""

    counts: Counter[Label] = field(default_factory=Counter)
    n_cells: int = 0
    is_whole: bool = True

    def add(self, labels: Sequence[object], codes: Any, name: str) -> None:
        """Count the cells of a slice."""
        times = code_counts(codes, len(labels))
        self.n_cells += int(times.sum())
        if self.is_whole:
            for raw, n in zip(labels, times.tolist(), strict=True):
                if n and (label := label_unless_missing(raw, name)) is not None:
                    self.counts[label] += n
            self.is_whole = len(self.counts) <= _MOST_COUNTED

    @property
    def are_weights(self) -> bool:
        """Whether cells are numbers of 0 or more, some of them with fractions."""
        if {label_key(label)[0] for label in self.counts} != {"number"}:
            return False
        return min(map(float, self.counts)) >= 0 and any(isinstance(label, float) for label in self.counts)

    def described(self, name: str, declared: Column, letters: Mapping[Label, int]) -> tuple[Column, list[str]]:
        """Return what a column is, and why."""
        markers = MissingLabels((), {name: declared.missing or ()}).markers(name)
        missing = {label: n for label, n in self.counts.items() if missing_key(label) in markers}
        listed = sorted({**letters, **missing}.items(), key=str)
        codes = ((printable(declared.shown_code(code), 200) or "empty", n) for code, n in listed)
        notes = [f"missing: {code} in {counted(n, 'cell')}" for code, n in codes]
        counts = {label: n for label, n in self.counts.items() if label not in missing}
        n_cells = self.n_cells - sum(missing.values())
        if not counts:
            return replace(declared, use=False), [*notes, "no observed cell"]
        labels = sort_labels(counts)
        are_numbers = {label_key(label)[0] for label in labels} == {"number"}
        numbers = np.array(labels, dtype=np.float64) if are_numbers else None
        is_whole = numbers is not None and bool((numbers == np.rint(numbers)).all())
        if not declared.categories and len(counts) == n_cells > _FEW and (numbers is None or is_whole):
            return replace(declared, use=False), [*notes, f"an identifier? {n_cells:,} cells, all different"]
        if numbers is None and len(counts) > MOST_LABELS:
            return replace(declared, use=False), [*notes, f"free text? {len(counts):,} different labels"]
        if numbers is not None and not declared.categories and needs_bins(numbers):
            times = np.array([counts[label] for label in labels], dtype=np.float64)
            bins = make_bins(name, numbers, times, n_bins=_N_BINS)
            spread = f"{len(counts):,} different numbers, {numbers[0]:g} to {numbers[-1]:g}"
            return replace(declared, cuts=bins.variable.edges or ()), [*notes, spread]
        categories = dict(declared.codes)
        shown = {label: categories.get(label, label) for label in labels}
        kind = "text" if numbers is None else "numbers"
        n_shown = len(set(shown.values()))
        many = "category" if n_shown == 1 else "categories"
        notes.insert(0, f"{kind}: {n_shown} {many} in {counted(n_cells, 'cell')}")
        return replace(declared, categories=shown if declared.categories or len(shown) <= _FEW else {}), notes


def find_columns(path: FilePath, missing: MissingLabels | None = None) -> tuple[Columns, dict[str, list[str]]]:
    """Return what the columns of files seem to be, and notes on each: what was seen, and why it is so declared.

    Parameters
    ----------
    path
        What `find_files` takes.
    missing
        Labels that mean "not observed", beside those that the files declare.
    """
    files, given = find_files(path), missing or MissingLabels()
    table = FileTable.open(files, missing=given)
    contents = {name: _FoundColumn() for name in files.columns}
    codes: dict[str, Counter[Label]] = {name: Counter() for name in files.columns}
    for piece in table.pieces():
        for part in piece.read():
            for name in contents:
                contents[name].add(*coded_labels(part.column(name)), name)
            for name, counts in codes_read_as_missing(part).items():
                codes[name].update(counts)
    for (name, code), n in sum(files.letters.values(), Counter[tuple[str, Label]]()).items():
        codes[name][code] += n
    columns, notes = {}, {}
    for name, seen in contents.items():
        found = {str(label).strip() for label in (*seen.counts, *codes[name])}
        used = {str(label): label for label in given.labels if str(label) in found}
        used |= {str(label): label for label in given.columns.get(name, ())}
        declared = files.declared[name]
        if used:
            declared = replace(declared, missing=(*(declared.missing or ()), *used.values()))
        columns[name], notes[name] = seen.described(name, declared, codes[name])
    alike = [name for name in columns if WEIGHT_NAME.fullmatch(name) and contents[name].are_weights]
    replicates = _found_replicates(contents)
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
    sets = {**_found_choices(columns, contents), **files.declared.sets}
    return Columns(columns, weights=weights, sets=sets), notes


def _found_replicates(contents: Mapping[str, _FoundColumn]) -> dict[str, str]:
    """Return columns that look like replicate weights, each with what the names of all begin with."""
    groups: dict[str, list[str]] = {}
    for name, seen in contents.items():
        numbered = _REPLICATES.fullmatch(name)
        if numbered and seen.are_weights:
            groups.setdefault(numbered[1], []).append(name)
    return {name: stem for stem, names in groups.items() if len(names) >= _FEWEST for name in names}


def _found_choices(columns: Mapping[str, Column], contents: Mapping[str, _FoundColumn]) -> dict[str, dict[str, Any]]:
    """Return what looks like multiple-choice questions: numbered columns of one name, all with one code alone."""
    groups: dict[tuple[str, Label], list[str]] = {}
    for name in columns:
        numbered = _MEMBER.fullmatch(name)
        if numbered and len(contents[name].counts) == 1:
            (ticked,) = contents[name].counts
            groups.setdefault((numbered[1], ticked), []).append(name)
    return {
        stem: {"columns": names, "chosen": chosen} for (stem, chosen), names in groups.items() if len(names) >= _FEWEST
    }
