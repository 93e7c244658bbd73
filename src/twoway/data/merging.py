"""Schemas of several sources as one: the variables of all, with the categories of all."""

from __future__ import annotations

from dataclasses import replace

from twoway.category_labels import Label, label_key, sort_labels
from twoway.errors import DataError
from twoway.schema import Schema, Variable
from twoway.text import text_beside


def merge_schemas(first: Schema, second: Schema) -> Schema:
    """Return the variables of both with the categories of both; those that only the second has come last."""
    if first == second and not any(v.is_found or v.missing is not None for v in second.variables):
        return first
    both = [merge_variables(v, second[v.name]) if v.name in second else v for v in first.variables]
    return Schema((*both, *(v for v in second.variables if v.name not in first)))


def merge_variables(first: Variable, second: Variable) -> Variable:
    """Return the variable with the categories of both, by label.

    They are in their natural order if those of both are. Otherwise an order of the owner's comes first, that of the
    first variable before the second's, and other categories follow. A category that is text in one and a number in the
    other, or has another value there, is an error, and so are bins with other edges. Labels without edges join bins
    that have all of them.

    Examples
    --------
    >>> merge_variables(Variable("age", ("5-9", "20+")), Variable("age", ("10-19", "20+"))).categories
    ('5-9', '10-19', '20+')
    """
    missing = first.missing or second.missing
    if first.missing is not None and second.missing is not None:
        missing = tuple(dict.fromkeys((*first.missing, *second.missing)))
    ordered = first.ordered or second.ordered
    merged = replace(first, is_found=first.is_found or second.is_found, missing=missing, ordered=ordered)
    codes = tuple({label_key(code): (code, category) for code, category in (*second.codes, *first.codes)}.values())
    if first == second:
        return replace(merged, codes=codes)
    if first.edges is not None or second.edges is not None:
        return _merge_bins(first, second, merged)
    new = [label for label in second.categories if first.find(label) is None]
    written = {str(label): label for label in first.categories}
    for label in new:
        known = written.get(str(label))
        if known is not None:
            raise DataError(
                f"{first.name!r} has the category {text_beside(known, beside=label)} in one and "
                f"{text_beside(label, beside=known)} in the other; read both as text, or both as numbers"
            )
    categories: tuple[Label, ...] = (*first.categories, *new)
    is_natural, is_second_natural = (list(v.categories) == sort_labels(v.categories) for v in (first, second))
    if is_natural:
        leading = () if is_second_natural else second.categories
        others = (label for label in categories if not leading or second.find(label) is None)
        categories = (*leading, *sort_labels(others))
    # An order that was declared says nothing about a category that it does not have.
    ordered = any(v.ordered and v.categories == categories for v in (first, second))
    codes = tuple((code, category) for code, category in codes if category in categories)
    values = _merged_values(first, second, categories)
    return replace(merged, categories=categories, values=values, ordered=ordered, codes=codes)


def _merge_bins(first: Variable, second: Variable, merged: Variable) -> Variable:
    """Return bins, whose categories keep the order of their edges."""
    bins, labels = (first, second) if first.edges is not None else (second, first)
    if labels.edges is None and any(bins.find(label) is None for label in labels.categories):
        raise DataError(f"{first.name!r} is in bins in one and not in the other")
    if labels.edges not in (None, bins.edges):
        raise DataError(f"{first.name!r} has the edges {first.edges} in one and {second.edges} in the other")
    if labels.edges is not None and labels.categories != bins.categories:
        raise DataError(first.difference(second))
    values = bins.values if labels.values is None else _merged_values(bins, labels, bins.categories)
    return replace(merged, categories=bins.categories, values=values, edges=bins.edges)


def _merged_values(first: Variable, second: Variable, categories: tuple[Label, ...]) -> tuple[float, ...] | None:
    """Return the values of the categories of both; None where labels alone decide."""
    if not any(v.values is not None and v.values != Variable(v.name, v.categories).values for v in (first, second)):
        return None
    values: dict[tuple[str, object], float] = {}
    for variable in (first, second):
        for place, label in enumerate(variable.categories):
            value = None if variable.values is None else variable.values[place]
            if value is None or values.setdefault(label_key(label), value) != value:
                raise DataError(f"{first.name!r} has the values {first.values} in one and {second.values} in the other")
    return tuple(values[label_key(label)] for label in categories)
