"""``twoway fit``: from records or published tables to a model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Exit

import twoway as tw
from twoway.cli.options import missing_option_hint
from twoway.cli.output import check_output, has_progress_output, output_wording, print_note, print_output, say
from twoway.cli.reading import OF_DATA, OF_DESIGN, OF_RULES, TO_READ, Reading
from twoway.data.survey_design import opened_design
from twoway.errors import errors_at
from twoway.report import reported_missing_codes, reported_model_form
from twoway.schema import first_duplicate
from twoway.text import aligned_text, counted, crossed_text, printable, shortlist

_LONGEST_NAME = 255  # bytes, in every file system in use
# Above this share of tables off by more than chance, another structure is suggested.
_MANY_OFF = 0.05
_MOST_NAMES = 5
_MOST_WARNINGS = 6


def fit(
    data: list[Path] | None = None,
    *,
    reading: Annotated[Reading, *TO_READ, *OF_DESIGN],
    out: Path = Path("model.twoway"),
    rank: int | None = None,
    solver: str = "auto",
    seed: int = 0,
    smoothing: float | None = None,
    structure: str = "auto",
    intervals: bool = False,
    areas: bool = False,
    share: bool = False,
    no_counts: bool = False,
    seconds: float | None = None,
    threads: int | None = None,
    ask: list[str] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Fit a model to records with missing cells, or to published tables, and show what was learned.

    Parameters
    ----------
    data : [DATA]...
        Records: CSV, TSV, Parquet, Arrow, JSON lines, SPSS, Stata, SAS or Excel files, a glob pattern or a folder; or
        tables from `twoway count`; or several of these.
    out : MODEL
        The file to write the model to.
    rank
        The number of components (default: chosen).
    solver
        auto, em, coupled-nmf, spa, symmetric-nmf, ctd, mle-ad, or a chain: spa+em.
    smoothing
        Pseudo-records per component (default: chosen).
    structure
        Hidden variables: single, on a tree, a mixture of trees, or the best: auto.
    intervals
        Also store replicates of the model, which `ask --interval` needs.
    areas
        Fit one model to each area in --tables, and write them into the folder --out.
    share
        With --areas, pull each model toward that of all areas together, if that helps.
    no_counts
        Do not store the two-way counts, which `ask` shows beside its answers.
    seconds
        Stop the fit after this many seconds, and keep the best model so far.
    ask : QUESTION
        A question to answer after the fit, as in `twoway ask`. Repeatable.

    Examples
    --------
    twoway fit survey.csv -o survey.twoway

    twoway fit survey.csv -o survey.twoway --ask "P(vote | age)"

    twoway fit survey.csv -o survey.twoway --drop id,comment --bins income=6 --weights w --missing=-9

    twoway fit survey.sav -o survey.twoway --weights w --strata region --units town --intervals

    twoway fit 'trips/*.parquet' -o trips.twoway --where "year >= 2020"

    twoway fit --tables crosstabs/ --kind column -o published.twoway --rank 4

    twoway fit --tables county.xlsx --layout county.toml -o county.twoway

    twoway fit --tables counties.csv --areas -o counties

    twoway fit survey.csv north.tables south.tables -o all.twoway
    """
    from twoway.cli.answers import print_answers
    from twoway.storage.checkpoint import Checkpoint

    options: dict[str, Any] = {"rank": rank, "solver": solver, "smoothing": smoothing, "structure": structure}
    options["seconds"] = seconds
    common: dict[str, Any] = {"seed": seed, "threads": threads}
    if areas:
        reading.reject(("area", *OF_DATA, *OF_RULES, *OF_DESIGN), "with --areas")
        excluded = {"DATA": data, "--intervals": intervals, "--ask": ask}
        if reading.tables is None or any(excluded.values()):
            names = [name for name, value in excluded.items() if value]
            raise tw.DataError(f"--areas needs --tables, and cannot be combined with {' or '.join(names or excluded)}")
        options |= {"share": share, **common}
        _fit_command_areas(reading, out, options, counts=not no_counts, force=force, json=json)
        return
    if share:
        raise tw.DataError("--share is for many areas; add --areas")
    name = f"{out.name}.checkpoint"
    beside = out.with_name(name) if out.name and len(os.fsencode(name)) <= _LONGEST_NAME else None
    is_half_done = beside is not None and beside.exists() and _is_fit_command_continued(out)
    inputs = [reading.tables, reading.layout, reading.errors, reading.columns, reading.db, *(data or [])]
    check_output(out, force or is_half_done, *inputs, is_model=True)
    checkpoint = None if beside is None else Checkpoint(beside)
    united = reading.source(data or [])
    source: Any = united.source
    _check_fit_command_questions(ask or [], source)
    if intervals and not isinstance(source, tw.Records | tw.Tables | tw.PublishedTables):
        raise tw.DataError(
            "--intervals needs records that fit into memory; `twoway count` these first, then fit the tables"
        )
    design = reading.design(data or [])
    if design is not None and not intervals:
        raise tw.DataError("the design of a survey is used for intervals; add --intervals")
    common["monitor"] = has_progress_output() or None
    pmf = tw.fit(united, checkpoint=checkpoint, **options, **common)
    if design is not None and pmf.report is not None:
        pmf = pmf.with_report(replace(pmf.report, columns={**pmf.report.columns, **reading.design_columns}))
    model = tw.bootstrap(pmf, source, design=design, **common) if intervals else pmf
    model.save(out, counts=not no_counts)
    if checkpoint is not None:
        checkpoint.remove()
    learned = tw.summarize(pmf, source)
    learned["odd_labels"] = {v.name: odd for v in pmf.schema if (odd := missing_option_hint(v.categories))}
    learned["warnings"] = [output_wording(warning) for warning in learned["warnings"]]
    learned |= {"model": str(out), "sources": len(data or [reading.tables])}
    learned["proposed_weights"] = reading.proposed_weights(data or [])
    if design is not None and isinstance(source, tw.Records):
        learned["design"] = opened_design(design, source).description
    print_output(learned, _fit_command_text(learned), json=json)
    if ask:
        if not json:
            say()
        print_answers(pmf, ask, json=json)
    if beside is not None and beside.exists():
        print_note(
            f"{str(beside)!r} holds the state of the fit: the same command continues it; delete the file to start over"
        )
    if learned["stop_reason"] == "interrupted":
        raise Exit(130)


def _fit_command_areas(
    reading: Reading, folder: Path, options: dict[str, Any], *, counts: bool, force: bool, json: bool
) -> None:
    """Fit a model to the tables of each area, and show how well each one fits."""
    assert reading.tables is not None
    by_area = tw.read_published_areas(reading.tables, **reading.published)
    if list(by_area) == [""]:
        raise tw.DataError(f"{str(reading.tables)!r} names no areas; name their variable in a layout: areas = …")
    names = {area: re.sub(r"[^\w.-]+", "_", area).strip("._") or "area" for area in by_area}
    paths = {area: folder / f"{name}.twoway" for area, name in names.items()}
    if (duplicate := first_duplicate(str(path) for path in paths.values())) is not None:
        same = [area for area, path in paths.items() if str(path) == duplicate]
        raise tw.DataError(f"the models of {shortlist(same)} would have the same file name, {duplicate!r}")
    folder.mkdir(exist_ok=True)
    for path in paths.values():
        check_output(path, force, reading.tables, reading.layout, reading.errors, is_model=True)
    rows, content = [["area", "people", "worst total variation", "model"]], []
    models = tw.fit_areas(by_area, **options)
    for area, tables in by_area.items():
        pmf = models[area]
        pmf.save(paths[area], counts=counts)
        misfits = pmf.report.misfits if pmf.report is not None else ()
        worst = misfits[0].total_variation if misfits else None
        total = float(tables.totals.max())
        content.append({"area": area, "total": total, "worst_total_variation": worst, "model": str(paths[area])})
        distance = "" if worst is None else f"{worst:.4f}"
        rows.append([printable(area, 40), f"{total:,.0f}", distance, str(paths[area])])
    print_output({"areas": content}, aligned_text(rows), json=json)
    report = models[next(iter(models))].report
    if options["share"] and report is not None and not json:
        print_note(report.warnings[0])


def _is_fit_command_continued(out: Path) -> bool:
    """Return whether a file is the model of a fit that ended early, so that the same command continues it."""
    try:
        report = tw.JointPMF.load(out).report
    except tw.TwowayError:
        return False
    return report is not None and report.stop_reason in ("interrupted", "time limit")


def _check_fit_command_questions(questions: list[str], source: Any) -> None:
    """Raise before the fit if a question cannot be answered: ask a model that knows nothing yet."""
    from twoway.cli.answers import answers_to_print
    from twoway.questions.answer import question_to_answer

    factors = [[[1 / len(variable)]] * len(variable) for variable in source.schema]
    uniform = tw.JointPMF([1.0], factors, source.schema)
    with errors_at("nothing was fitted"):
        list(answers_to_print(questions, lambda question: tw.ask(uniform, question_to_answer(source, question))))


def _fit_command_text(learned: dict[str, Any]) -> str:
    if "records" in learned:
        holes = learned["holes"] / max(learned["cells"], 1)
        effective = learned["effective_records"]
        weighted = "" if abs(effective - learned["records"]) < 0.5 else f" that count as {effective:,.0f}"
        evidence = f"{counted(learned['records'], 'record')}{weighted}, {holes:.1%} of their cells missing"
    else:
        evidence = counted(learned["tables"], "table")
    if learned["sources"] > 1:
        evidence = f"{learned['sources']} sources together: {evidence}"
    ends = {"converged": "converged", "direct": "solved directly", "interrupted": "interrupted by Ctrl-C"}
    ends["time limit"] = "stopped at the time limit"
    end = f"{learned['solver']}, {ends.get(learned['stop_reason'], 'not converged')}"
    form = reported_model_form(learned["trees"], learned["hidden"], learned["rank"])
    likelihood, check = learned.get("log_likelihood_per_record"), learned["check"]
    more = len(learned["warnings"]) - _MOST_WARNINGS
    rows = [
        ("learned from", evidence),
        ("design", learned.get("design")),
        ("set to missing", reported_missing_codes(learned.get("set_to_missing", ()))),
        ("model", f"{counted(learned['variables'], 'variable')}, {form}: {learned['model']}"),
        ("fit", f"{end} after {counted(learned['passes'], 'pass')}, {learned['seconds']:.1f} s"),
        ("structure", learned["structure"]),
        ("no table", printable(learned.get("silent") or "", 400)),
        ("", "" if likelihood is None else f"log-likelihood {likelihood:.4f} per record, BIC {learned['bic']:,.1f}"),
        *_fit_command_tables("worst fit", learned.get("worst_fit", ()), "total_variation", "total variation {}"),
        ("check", check and printable(str(tw.FitCheck(**check)), 400)),
        *_fit_command_tables("strongest", learned["strongest"], "nats", "{} nats"),
        *(("hint", hint) for hint in _fit_command_hints(learned)),
        *(("warning", printable(warning, 400)) for warning in learned["warnings"][:_MOST_WARNINGS]),
        ("", f"{more} more: twoway info {learned['model']}" if more > 0 else ""),
    ]
    return aligned_text([row for row in rows if row[1]])


def _fit_command_tables(title: str, tables: Iterable[dict[str, Any]], key: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield a row for each table with its number, after the title; a positive number never prints as 0."""
    for place, table in enumerate(tables):
        number = f"{table[key]:.3f}" if table[key] >= 0.0005 or table[key] == 0 else "< 0.0005"
        yield "" if place else title, f"{crossed_text(table['variables'], 40)}: {text.format(number)}"


def _fit_command_hints(learned: dict[str, Any]) -> Iterator[str]:
    """Yield hints that may lead to a better model."""
    from twoway.data.column_finding import WEIGHT_NAME
    from twoway.fitting.summary import MANY_CATEGORIES

    for path, column in learned["proposed_weights"].items():
        yield f"{path} declares the weight variable {column!r}, which was not used; --weights {column!r} uses it"
    odd = learned["odd_labels"] if "records" in learned else {}
    if odd:
        marks = list(dict.fromkeys(printable(label, 40) for labels in odd.values() for label in labels))[:3]
        yield (
            f"numbers except for {', '.join(map(repr, marks))}: {shortlist(odd, _MOST_NAMES)}; "
            f"{' '.join(f'--missing {mark!r}' for mark in marks)} reads these as missing and the others as numbers"
        )
    many = {name: is_number for name, is_number in learned["many_categories"].items() if name not in odd}
    if many:
        weights = [name for name in many if WEIGHT_NAME.fullmatch(name)]
        ways = [f"--weights {printable(name, 40)!r} uses it as survey weights" for name in weights][:1]
        ways += [f"--bins {printable(name, 40)!r} bins numbers" for name in many if many[name]][:1]
        ways += [f"--drop {printable(name, 40)!r} leaves a column out" for name in many if not many[name]][:1]
        names = shortlist(many, _MOST_NAMES)
        yield f"more than {MANY_CATEGORIES} categories, so few records for each: {names}; {', '.join(ways)}"
    check = learned["check"]
    if check is not None and check["n_off"] > _MANY_OFF * check["n_compared"]:
        # If structures were compared, the better one was used.
        if learned["hidden"] == 1 and not learned["structure"]:
            yield "one hidden variable does not describe how these variables depend on each other; try --structure tree"
        yield f"twoway check {learned['model']} --data DATA lists the tables that are off"
