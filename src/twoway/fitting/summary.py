"""What a fit learned, in numbers."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from twoway.data.stored_records import RecordSource
from twoway.errors import DataError
from twoway.model.information import pairwise_information
from twoway.model.pmf import JointPMF, pmf_of
from twoway.tables.published.tables import PublishedTables
from twoway.tables.tables import Tables

_MOST_PAIRS = 5
MANY_CATEGORIES = 40
"""Columns with more categories are often better binned or left out."""


def summarize(pmf: JointPMF, source: RecordSource | Tables) -> dict[str, Any]:
    """Return what a fit learned from its data, as plain data that JSON can hold.

    Parameters
    ----------
    pmf
        The model that `fit` returned.
    source
        The records or tables that it was fitted to.

    Returns
    -------
    dict
        The size of the model, how the fit ended, its warnings, the strongest dependences (``strongest``, in nats) and
        variables with more than 40 categories (``many_categories``, each with whether they are numbers). For records
        also their number, missing cells (``holes``) and the likelihood, for tables those that fit worst.

    Examples
    --------
    >>> from twoway import Records, fit
    >>> records = Records({"sky": ["grey", "blue", "blue"], "rain": ["yes", "no", None]})
    >>> summary = summarize(fit(records, rank=2), records)
    >>> summary["records"], summary["holes"], summary["strongest"][0]["variables"]
    (3, 1, ['sky', 'rain'])
    """
    pmf = pmf_of(pmf)
    report = pmf.report
    if report is None:
        raise DataError("the model has no report: a summary needs the model that a fit returned")
    names = pmf.schema.names
    information = pairwise_information(pmf.trees)
    pairs = np.column_stack(np.triu_indices(len(names), 1))
    strongest = pairs[np.argsort(-information[tuple(pairs.T)], kind="stable")[:_MOST_PAIRS]]
    # Of numbers, but not of one for each record, as identifiers are, bins can be made.
    many = (variable for variable in pmf.schema if len(variable) > MANY_CATEGORIES)
    most = math.inf if report.n_records is None else 0.9 * report.n_records
    summary: dict[str, Any] = {
        "variables": len(names),
        "rank": pmf.rank,
        "hidden": pmf.n_hidden,
        "trees": len(pmf.trees.trees),
        "structure": report.structure,
        "solver": report.solver,
        "stop_reason": report.stop_reason.value,
        "passes": report.starts[report.best].n_iter,
        "strongest": [{"variables": [names[j], names[k]], "nats": float(information[j, k])} for j, k in strongest],
        "many_categories": {v.name: v.values is not None and len(v) <= most for v in many},
        "check": None if report.check is None else asdict(report.check),
        "warnings": list(report.warnings),
        "seconds": report.seconds,
    }
    if isinstance(source, Tables | PublishedTables):
        worst = report.misfits[:3]
        return summary | {
            "tables": len(source),
            "silent": report.silent,
            "worst_fit": [{"variables": list(m.variables), "total_variation": m.total_variation} for m in worst],
        }
    cells, likelihood = source.n_records * len(names), report.log_likelihood
    per_record = None if likelihood is None or not report.n_records else likelihood / report.n_records
    return summary | {
        "records": source.n_records,
        "weight": source.total_weight,
        "effective_records": source.weight_totals.effective,
        "cells": cells,
        "holes": cells - source.n_observed,
        "log_likelihood": likelihood,
        "log_likelihood_per_record": per_record,
        "bic": report.bic,
        "set_to_missing": list(report.set_to_missing),
    }
