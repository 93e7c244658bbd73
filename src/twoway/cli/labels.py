"""``twoway labels``: the true label of each item, and how good each annotator is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

import twoway as tw
from twoway.cli.options import missing_option
from twoway.cli.output import check_output, print_output
from twoway.text import aligned_text, counted, printable

# Annotators and questions printed.
_SHOWN = 3
# Labels below this probability are counted as uncertain.
_SURE = 0.9


def labels(
    data: Path,
    *,
    item: str = "item",
    annotator: str = "annotator",
    label: str = "label",
    gold: Path | None = None,
    out: Path | None = None,
    proba: bool = False,
    annotators: Path | None = None,
    questions: Path | None = None,
    number: Annotated[int, Option(min=1)] = 100,
    missing: list[str] | None = None,
    smoothing: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Find the true label of each item from the labels of several annotators, and how good each annotator is.

    The file has a row per label, with the columns of item, annotator and label.

    Parameters
    ----------
    item : COLUMN
        The column of the items.
    annotator : COLUMN
        The column of the annotators.
    label : COLUMN
        The column of the labels.
    gold : FILE
        Known labels of some items: a file with the column of the items and one more.
    out
        Write each item with its label and its probability to this file.
    proba
        Write the probability of every class, too.
    annotators : FILE
        Write the quality of each annotator to this file.
    questions : FILE
        Write which items to ask about next, and whom, to this file, the most useful first.
    number
        How many questions to write.
    missing : LABEL
        A label that means no label; can be repeated.
    smoothing
        Pseudo-labels of each row of a confusion matrix (default: by held-out labels).

    Examples
    --------
    twoway labels labels.csv --annotator worker -o truth.csv

    twoway labels labels.csv --gold gold.csv -o truth.csv --annotators annotators.csv --questions next.csv
    """
    from twoway.data.files.file_table import read_file_table
    from twoway.data.files.writing import write_data_file

    for path in (out, annotators, questions):
        check_output(path, force, data, gold, is_records=True)
    columns = (item, annotator, label)
    known = None if gold is None else read_file_table(gold)
    model = tw.LabelAggregator(
        columns=columns,
        smoothing=smoothing,
        missing=list(missing_option(missing).labels),
        random_state=seed,
        threads=threads,
    ).fit(read_file_table(data, columns), gold=known)
    probabilities = model.probabilities_
    truth = model.labels_.rename(label).to_frame().assign(probability=probabilities.max(axis=1))
    truth = truth.join(probabilities.rename(columns="P({})".format)) if proba else truth
    for path, frame in (
        (out, truth.reset_index()),
        (annotators, model.quality()),
        (questions, model.next_questions(number) if questions else None),
    ):
        if path is not None:
            write_data_file(_labels_command_arrow(frame), path)
    content = _labels_command_summary(model)
    print_output(content, _labels_command_text(content), json=json)


def _labels_command_arrow(frame: Any) -> Any:
    """Return a frame as an Arrow table; labels of several types become text."""
    import pyarrow as pa

    for name in frame.columns:
        if frame[name].dtype.kind == "O" and len({type(cell) for cell in frame[name]}) > 1:
            frame[name] = frame[name].map(str)
    return pa.Table.from_pandas(frame, preserve_index=False)


def _labels_command_summary(model: tw.LabelAggregator) -> dict[str, Any]:
    quality = model.quality().sort_values("information", ascending=False, kind="stable")
    n_items = model.labels_.value_counts()
    return {
        "items": len(model.items_),
        "annotators": len(model.annotators_),
        "labels": int(quality["labels"].sum()),
        "classes": [
            {"label": name, "share": share, "items": int(n_items.get(name, 0))}
            for name, share in zip(model.classes_.tolist(), model.class_prior_, strict=True)
        ],
        "uncertain": int((model.probabilities_.max(axis=1) < _SURE).sum()),
        "best": quality.head(_SHOWN).to_dict("records"),
        "worst": quality.iloc[_SHOWN:].tail(_SHOWN).to_dict("records"),
        "smoothing": model.smoothing_,
        "converged": model.converged_,
        "n_iter": model.n_iter_,
    }


def _labels_command_text(content: dict[str, Any]) -> str:
    classes = [["class", "share", "items"]]
    classes += [[printable(row["label"]), f"{row['share']:.3f}", f"{row['items']:,}"] for row in content["classes"]]
    rows = [["annotator", "labels", "accuracy", "95% interval", "information"]]
    for row in (*content["best"], *content["worst"]):
        shares = f"{row['accuracy']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"
        rows.append([printable(row["annotator"]), f"{row['labels']:,}", *shares, f"{row['information']:.3f} nats"])
    if (n_hidden := content["annotators"] - 2 * _SHOWN) > 0:
        rows.insert(1 + _SHOWN, [f"… {n_hidden:,} more", "", "", "", ""])
    n_items, n_uncertain = content["items"], content["uncertain"]
    be = "is" if n_uncertain == 1 else "are"
    head = [
        f"{counted(content['labels'], 'label')} of {counted(n_items, 'item')} by "
        f"{counted(content['annotators'], 'annotator')}",
        f"{counted(n_uncertain, 'item')} ({n_uncertain / n_items:.1%}) {be} less than {_SURE:.0%} certain",
    ]
    return "\n".join([*head, "", aligned_text(classes), "", aligned_text(rows)])
