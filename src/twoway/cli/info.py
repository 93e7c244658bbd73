"""``twoway info``: the contents of a model, of tables or of files of records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import twoway as tw
from twoway.cli.output import is_terminal, output_wording, print_output
from twoway.model.model_file import count_replicates, parse_model
from twoway.report import reported_model_form
from twoway.storage.container import container_kind, read_container
from twoway.text import aligned_text, counted, crossed_text, printable

_MOST_TABLES = 20
_WIDE = 40  # longer names get a line of their own
_MOST_LABELS = 8


def info(path: Path, *, json: bool = False) -> None:
    """Show the contents of a file: variables and categories, how a model was fitted, which tables or records there are.

    Parameters
    ----------
    path : MODEL|TABLES|DATA
        A model, tables from `twoway count`, or files of records.

    Examples
    --------
    twoway info survey.twoway

    twoway info survey.tables --json

    twoway info 'trips/*.parquet'
    """
    from twoway.data.files.formats import is_data_format

    kind = container_kind(path)
    if kind is None and (path.is_dir() or is_data_format(path)):
        records = tw.FileRecords(path)
        content = {"kind": "records", "records": records.n_records, "variables": records.schema.to_dict()}
        size = f"{counted(records.n_records, 'record')} of {counted(len(records.schema), 'variable')}"
        text = f"{size}\n\n{_variables_info(records.schema)}"
    else:
        content, text = _tables_info(path) if kind == "tables" else _model_info(path)
    print_output(content, text, json=json)


def _model_info(path: Path) -> tuple[dict[str, Any], str]:
    header, arrays = read_container(path, "model")
    pmf, n_replicates = tw.JointPMF.from_trees(*parse_model(path, header, arrays)), count_replicates(arrays)
    content: dict[str, Any] = {
        "kind": "model",
        "rank": pmf.rank,
        "hidden": pmf.n_hidden,
        "trees": len(pmf.trees.trees),
        "weights": pmf.weights if pmf.n_hidden == 1 else None,
        "counts": pmf.counts is not None,
        "people": None if pmf.counts is None else pmf.counts.n_people,
        "replicates": n_replicates,
        "variables": pmf.schema.to_dict(),
        "report": None if pmf.report is None else pmf.report.to_dict(),
    }
    form = reported_model_form(len(pmf.trees.trees), pmf.n_hidden, pmf.rank)
    parts = [f"a model of {form} with {counted(len(pmf.schema), 'variable')}", _variables_info(pmf.schema)]
    if pmf.report is not None:
        parts.append(output_wording(str(pmf.report)))
        if content["people"] is not None:
            parts.append(
                f"weights: {pmf.report.n_records:,.6g} effective records, because weights differ; "
                f"the most observed variable has {content['people']:,} records"
            )
    if n_replicates:
        parts.append(f"replicates: {n_replicates:,}, for intervals")
    counts = "the two-way counts that the model was fitted to: exact numbers, including small ones"
    parts.append(f"counts: {'none' if pmf.counts is None else counts}")
    return content, "\n\n".join(parts)


def _tables_info(path: Path) -> tuple[dict[str, Any], str]:
    tables = tw.Tables.load(path)
    listed = [
        {"variables": names, "total": total, "weight": weight}
        for names, total, weight in zip(tables.names, tables.totals, tables.weights, strict=True)
    ]
    content = {
        "kind": "tables",
        "variables": tables.schema.to_dict(),
        "tables": listed,
        "notes": tables.notes,
        "releases": tables.releases,
        "privacy": tables.privacy,
    }
    n_shown = _MOST_TABLES if is_terminal(sys.stdout) else len(tables)
    shown = ([crossed_text(table["variables"]), f"{table['total']:,.6g}"] for table in listed[:n_shown])
    more = f"… {counted(len(tables) - n_shown, 'more table')}" if len(tables) > n_shown else ""
    parts = [repr(tables).strip("<>"), _variables_info(tables.schema), aligned_text([["table", "total"], *shown], more)]
    if tables.notes:
        parts.append("\n".join(f"note: {note}" for note in tables.notes))
    if tables.privacy is not None:
        parts.append(f"privacy: {tables.privacy}, for records that are in all tables")
    return content, "\n\n".join(parts)


def _variables_info(schema: Any) -> str:
    """Return a line for each variable: name, number of categories, the first of them, labels that mean missing."""
    from twoway.data.missing import USUAL
    from twoway.questions.question import question_word

    rows = [["variable", "categories", ""]]
    for variable in schema:
        n_shown = _MOST_LABELS if is_terminal(sys.stdout) else len(variable)
        labels = [printable(question_word(label), 60) for label in variable.categories[:n_shown]]
        more = [f"… ({len(variable) - n_shown} more)"] if len(variable) > n_shown else []
        codes = [label for label in variable.missing or () if label not in USUAL]
        texts = (f"{code[0]:g} to {code[1]:g}" if isinstance(code, tuple) else str(code) for code in codes)
        unique = ", ".join(dict.fromkeys(texts))  # a number is remembered as text, too
        missing = f"  (missing: {printable(unique, 60)})" if unique else ""
        name = printable(question_word(variable.name), 200)  # as in a question, like the labels
        wording = f"{printable(variable.label, 60)}: " if variable.label else ""
        rows.append([name, str(len(variable)), wording + ", ".join([*labels, *more]) + missing])
    if max(len(variable.name) for variable in schema) <= _WIDE:
        return aligned_text(rows)
    return "\n".join(["variables", *(f"{name}\n    {number}: {labels}" for name, number, labels in rows[1:])])
