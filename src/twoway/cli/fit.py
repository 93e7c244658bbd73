"""``twoway fit``: from records or published tables to a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twoway.cli.options import (
    MAX_CATEGORIES,
    Bins,
    Counts,
    Drop,
    Force,
    Json,
    MaxCategories,
    Missing,
    MissingOnly,
    Only,
    Reading,
    Seed,
    Weights,
    Where,
    all_of,
    missing_labels,
)
from twoway.cli.terminal import check_output, in_options, say, say_json, shows_progress

if TYPE_CHECKING:
    from twoway.data.files.records import FileRecords
    from twoway.data.records import Records
    from twoway.data.source import RecordSource
    from twoway.fitting.unite import United
    from twoway.model.pmf import JointPMF
    from twoway.tables.tables import Tables

_LONGEST_NAME = 255  # bytes, in every file system in use
_MOST_PAIRS = 5
_MOST_WARNINGS = 6
# Columns of more categories than this are most often better in bins.
_MANY = 40


def fit(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DATA]...",
            help="Records: CSV, TSV, Parquet, Arrow or JSON lines, a pattern or a folder of them; or tables from "
            "`twoway count`; or several of these.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="MODEL", help="The file to write the model to.")] = Path(
        "model.twoway"
    ),
    rank: Annotated[int | None, typer.Option(help="The number of components; chosen if not given.")] = None,
    solver: Annotated[str, typer.Option(help="auto, em, coupled-nmf, spa, ctd, mle-ad, or a chain: spa+em.")] = "auto",
    seed: Seed = 0,
    smoothing: Annotated[float | None, typer.Option(help="Pseudo-records per component; chosen if not given.")] = None,
    only: Only = None,
    drop: Drop = None,
    missing: Missing = None,
    missing_only: MissingOnly = None,
    bins: Bins = None,
    counts: Counts = None,
    weights: Weights = None,
    where: Where = None,
    max_categories: MaxCategories = MAX_CATEGORIES,
    tables: Annotated[
        Path | None,
        typer.Option(help="Instead of records, published cross-tabs: a folder of one a file, or a banner sheet."),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="What the numbers of --tables are: counts, joint, row or column percentages.")
    ] = "counts",
    total: Annotated[
        float | None, typer.Option(metavar="N", help="How many records each of --tables rests on, if they do not say.")
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Also store replicates, by which `ask --interval` says how sure it is.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="All cores by default.")] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help="A question to answer at once, as in `twoway ask`; several if repeated."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a model from records with holes, or from published tables, and say what was learned.

    [bold]Examples[/bold]

    twoway fit survey.csv -o survey.twoway

    twoway fit survey.csv -o survey.twoway --ask "P(vote | age)"

    twoway fit survey.csv -o survey.twoway --drop id,comment --bins income=6 --weights w --missing=-9

    twoway fit 'trips/*.parquet' -o trips.twoway --where "year >= 2020"

    twoway fit --tables crosstabs/ --kind column -o published.twoway --rank 4

    twoway fit survey.csv north.tables south.tables -o all.twoway
    """
    from twoway.cli.answers import print_answers
    from twoway.data.records import Records
    from twoway.errors import DataError
    from twoway.fitting.fit import fit as fit_source
    from twoway.questions import parse
    from twoway.storage.checkpoint import Checkpoint
    from twoway.tables.tables import Tables

    if bool(data) == (tables is not None):
        raise typer.BadParameter("give either files of records or counts, DATA, or --tables")
    beside = _checkpoint_beside(out)
    is_half_done = beside is not None and beside.exists() and _is_half_done(out)
    check_output(out, force or is_half_done, tables, *(data or []))
    checkpoint = None if beside is None else Checkpoint(beside)
    reading = Reading(
        only, drop, missing_labels(missing, missing_only), counts, weights, bins, max_categories, all_of(where)
    )
    united = _read_all(data or [], reading) if tables is None else None
    source = _read_tables(tables, kind, total) if united is None else united.source  # type: ignore[arg-type]
    for question in ask or ():
        parse(question, source.schema)  # a misspelt name should not cost a fit
    if intervals and not isinstance(source, Records | Tables):
        raise DataError(
            "--intervals needs records that fit into memory; count these first: twoway count, then fit tables"
        )
    pmf = fit_source(
        united or source,
        rank=rank,
        solver=solver,
        seed=seed,
        smoothing=smoothing,
        threads=threads,
        monitor=shows_progress() or None,
        checkpoint=checkpoint,
    )
    if intervals:
        from twoway.uncertainty.replication import bootstrap

        bootstrap(pmf, source, seed=seed, threads=threads, monitor=shows_progress() or None).save(out)
    else:
        pmf.save(out)
    if checkpoint is not None:
        checkpoint.remove()
    learned = _learned(pmf, source, out) | {"sources": len(data or [tables])}
    if json:
        say_json(learned)
    else:
        _print(learned)
    if ask:
        if not json:
            say()
        print_answers(pmf, ask, json=json)
    if learned["stop_reason"] == "interrupted":
        raise typer.Exit(130)


def _checkpoint_beside(out: Path) -> Path | None:
    """Return where a long fit takes note of how far it has got; nowhere if the name would be too long."""
    name = f"{out.name}.checkpoint"
    return out.with_name(name) if out.name and len(os.fsencode(name)) <= _LONGEST_NAME else None


def _is_half_done(out: Path) -> bool:
    """Return whether a file is the best that an interrupted fit had found, which the same command goes on from."""
    from twoway.errors import TwowayError
    from twoway.model.pmf import JointPMF

    try:
        report = JointPMF.load(out).report
    except TwowayError:
        return False
    return report is not None and report.stop_reason == "interrupted"


def _read_all(data: list[Path], reading: Reading) -> United:
    """Return the records or tables of one file, or of several as one."""
    from dataclasses import replace

    from twoway.data.files import reading as files
    from twoway.errors import DataError
    from twoway.fitting.unite import unite
    from twoway.storage.container import kind_of

    if len(data) > 1 and reading.bins:
        raise DataError(
            "--bins would find other bins in each file; put numbers into bins before they are fitted together"
        )
    if len(set(data)) < len(data):
        raise DataError("a file is named twice, which would count its records twice")
    if len(data) == 1 or reading.missing is None:
        return unite({str(path): _read_data(path, reading) for path in data})
    names = {path: [] if kind_of(path) else files.column_names(path) for path in data}
    reading.missing.check_columns(dict.fromkeys(name for some in names.values() for name in some))
    return unite(
        {str(path): _read_data(path, replace(reading, missing=reading.missing.among(names[path]))) for path in data}
    )


def _read_data(data: Path, reading: Reading) -> Records | FileRecords | Tables:
    from twoway.errors import DataError
    from twoway.storage.container import kind_of
    from twoway.tables.tables import Tables

    match kind_of(data):
        case "tables":
            return Tables.load(data)
        case "model":
            raise DataError(f"{str(data)!r} is a model already; `twoway ask` and `twoway info` read it")
    return reading.records_of_any_size(data)


def _read_tables(path: Path, kind: str, total: float | None) -> Tables:
    from dataclasses import replace

    from twoway.tables.crosstabs.published import read_published
    from twoway.tables.tables import Tables

    published = read_published(path)
    tables = Tables.from_crosstabs(published.tables, kind=kind, totals=total)  # type: ignore[arg-type]  # checked there
    return replace(tables, notes=(*published.notes, *tables.notes))


def _learned(pmf: JointPMF, source: RecordSource | Tables, out: Path) -> dict[str, Any]:
    """Return what a fit found, for people and for machines."""
    import numpy as np

    from twoway.cli.binning import odd_labels
    from twoway.model.information import pairwise_information
    from twoway.tables.tables import Tables

    report = pmf.report
    assert report is not None
    names = pmf.schema.names
    information = pairwise_information(pmf.weights, pmf.factors)
    first, second = np.triu_indices(len(names), 1)
    strongest = np.argsort(-information[first, second], kind="stable")[:_MOST_PAIRS]
    learned: dict[str, Any] = {
        "model": str(out),
        "variables": len(names),
        "rank": pmf.rank,
        "solver": report.solver,
        "stop_reason": report.stop_reason.value,
        "passes": report.starts[report.best].n_iter,
        "strongest": [
            {"variables": [names[first[pair]], names[second[pair]]], "nats": information[first[pair], second[pair]]}
            for pair in strongest
        ],
        "many_categories": {v.name: v.values is not None for v in pmf.schema if len(v) > _MANY},
        "odd_labels": {v.name: odd for v in pmf.schema if (odd := odd_labels(v.categories))},
        "check": None if report.check is None else asdict(report.check),
        "warnings": [in_options(warning) for warning in report.warnings],
        "seconds": report.seconds,
    }
    if not isinstance(source, Tables):
        cells = source.n_records * len(names)
        learned |= {
            "records": source.n_records,
            "weight": source.total_weight,
            "effective_records": source.weight_totals.effective,
            "cells": cells,
            "holes": cells - source.n_observed,
            "log_likelihood": report.log_likelihood,
            "log_likelihood_a_record": None
            if report.log_likelihood is None or not report.n_records
            else report.log_likelihood / report.n_records,
            "bic": report.bic,
        }
    else:
        learned |= {
            "tables": len(source),
            "worst_fit": [
                {"variables": list(misfit.variables), "total_variation": misfit.total_variation}
                for misfit in report.misfits[:3]
            ],
        }
    return learned


def _print(learned: dict[str, Any]) -> None:
    from twoway.report import FitCheck
    from twoway.text import aligned, printable

    def pair(one: dict[str, Any]) -> str:
        return " × ".join(printable(name, 40) for name in one["variables"])

    if "records" in learned:
        holes = learned["holes"] / max(learned["cells"], 1)
        effective = learned["effective_records"]
        weighed = "" if abs(effective - learned["records"]) < 0.5 else f" that count as {effective:,.0f}"
        told = f"{learned['records']:,} records{weighed}, {holes:.1%} of their cells missing"
    else:
        told = f"{learned['tables']:,} tables"
    if learned["sources"] > 1:
        told = f"{learned['sources']} sources together: {told}"
    end = {"converged": "converged", "direct": "solved directly", "interrupted": "interrupted by Ctrl-C"}
    rows = [
        ["learned from", told],
        ["model", f"{learned['variables']} variables, rank {learned['rank']}: {learned['model']}"],
        [
            "how",
            f"{learned['solver']}, {end.get(learned['stop_reason'], 'not converged yet')} after {learned['passes']} "
            f"passes, {learned['seconds']:.1f} s",
        ],
    ]
    if learned.get("log_likelihood_a_record") is not None:
        rows.append(
            ["fit", f"log-likelihood {learned['log_likelihood_a_record']:.4f} a record, BIC {learned['bic']:,.1f}"]
        )
    for number, worst in enumerate(learned.get("worst_fit", [])):
        rows.append(["" if number else "worst fit", f"{pair(worst)}: total variation {worst['total_variation']:.3f}"])
    if learned["check"] is not None:
        rows.append(["check", printable(str(FitCheck(**learned["check"])), 400)])
    for number, one in enumerate(learned["strongest"]):
        rows.append(["" if number else "strongest", f"{pair(one)}: {one['nats']:.3f} nats"])
    rows += [["hint", hint] for hint in _hints(learned)]
    warnings = learned["warnings"]
    rows += [["warning", printable(warning, 400)] for warning in warnings[:_MOST_WARNINGS]]
    if len(warnings) > _MOST_WARNINGS:
        rows.append(["", f"{len(warnings) - _MOST_WARNINGS} more: twoway info {learned['model']}"])
    say(aligned(rows))


def _hints(learned: dict[str, Any]) -> Iterator[str]:
    """Yield what a newcomer might do better next time."""
    from twoway.text import printable

    odd = learned["odd_labels"]
    marks = list(dict.fromkeys(printable(label, 40) for labels in odd.values() for label in labels))[:3]
    if odd:
        yield (
            f"numbers but for {', '.join(map(repr, marks))}: {_names(odd)}; "
            f"{' '.join(f'--missing {mark!r}' for mark in marks)} reads that as missing, and the rest as numbers"
        )
    many = {name: is_number for name, is_number in learned["many_categories"].items() if name not in odd}
    if many:
        ways = [f"--bins {printable(name, 40)!r} groups numbers" for name in many if many[name]][:1]
        ways += [f"--drop {printable(name, 40)!r} leaves a column out" for name in many if not many[name]][:1]
        told = f"more than {_MANY} categories each, so that few records are like any one"
        yield f"{told}: {_names(many)}; {', '.join(ways)}"


def _names(names: Iterable[str]) -> str:
    from twoway.text import printable

    shown = [printable(name, 40) for name in names]
    return ", ".join(shown[:_MOST_PAIRS]) + (", …" if len(shown) > _MOST_PAIRS else "")
