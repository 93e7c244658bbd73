"""A model as one self-contained HTML page: no server, no network, no script but the page's own."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway import __version__
from twoway.arrays import Floats
from twoway.errors import check_type
from twoway.model.counts import Counts, packed_counts
from twoway.model.information import pairwise_information
from twoway.model.intervals import interval_angle
from twoway.model.pmf import JointPMF, pmf_of
from twoway.notebook import page_template
from twoway.schema import Variable
from twoway.segmentation.segments import Segments
from twoway.storage.atomic_files import check_file_path, write_text_file
from twoway.uncertainty.bootstrap import Bootstrap
from twoway.uncertainty.observed_tables import LEAST_REPLICATES

LINKS = 20
"""The page contains the strongest links of each variable, to this many others."""

# Comments on separate lines, which a page does not need.
_COMMENT = re.compile(r"^ *//[^\n]*\n|^ */\*\*.*?\*/ *\n", re.MULTILINE | re.DOTALL)
# One script, in the order in which its parts use one another.
_SCRIPTS = (
    *("model", "observed", "intervals", "wording", "state", "cards"),
    *("tree", "map", "components", "export", "segments", "main"),
)


class Page:
    """A page, which notebooks show in a separate frame."""

    def __init__(self, text: str) -> None:
        self.text = text
        """The page, HTML that needs no other file."""

    def __repr__(self) -> str:
        return f"<Page: {len(self.text):,} characters; a notebook shows it>"

    def _repr_html_(self) -> str:
        # A frame keeps the styles of the notebook and of the page apart.
        return f'<iframe srcdoc="{html.escape(self.text)}" style="width:100%;height:720px;border:0"></iframe>'


def explore(
    pmf: JointPMF | Bootstrap | Segments,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    counts: bool = True,
) -> Page | None:
    """Show, or write, a page on which you click what is known and see all other variables change.

    The page contains the exact model: it shows what `JointPMF.given` answers. It is one file that needs neither a
    server nor a network, so you can mail it, put it in a shared folder or open it from a disk.

    Parameters
    ----------
    pmf
        The model; or a `Bootstrap` of it, which adds an interval to each number on the page; or `Segments`, which add
        their profiles under names that can be changed on the page.
    path
        Where to write; an existing file is replaced once the new one is complete. Without one, the page is returned,
        and Jupyter and marimo show it.
    title
        The headline; by default the file's name, or "twoway".
    counts
        Whether the page marks what was observed, where the model has its two-way counts. They are exact, also where
        they are small: leave them out of a page for people who may not see them.

    Examples
    --------
    >>> import tempfile
    >>> import twoway as tw
    >>> pmf = tw.datasets.dirichlet_rows(n_variables=4, n_categories=3, rank=2)
    >>> path = Path(tempfile.mkdtemp()) / "page.html"
    >>> tw.explore(pmf, path)
    >>> path.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    pmf_of(pmf)
    if path is not None:
        check_file_path(path)
    check_type("title", title, str | None, "text")
    name = "twoway" if path is None else Path(path).stem
    text = render_page(describe_page(pmf, name if title is None else title, counts=counts))
    if path is None:
        return Page(text)
    write_text_file(path, text)
    return None


def describe_page(model: JointPMF | Bootstrap | Segments, title: str, *, counts: bool = True) -> dict[str, Any]:
    """Return everything that the page shows, as JSON; the exact parameters in base64."""
    pmf = pmf_of(model)
    information = pairwise_information(pmf.trees)
    is_silent = None if pmf.counts is None else pmf.counts.are_silent
    return {
        "title": _page_text(title),
        "version": __version__,
        "records": None if pmf.report is None else pmf.report.n_records,
        "warnings": [] if pmf.report is None else [_page_text(warning) for warning in pmf.report.warnings],
        "variables": [
            {"name": variable.name, "categories": page_labels(variable), "values": variable.values}
            for variable in pmf.schema
        ],
        "trees": [{"parents": tree.parents, "states": tree.n_states, "homes": tree.homes} for tree in pmf.trees.trees],
        "numbers": _page_array(page_numbers(pmf)),
        "counts": _describe_page_counts(pmf.counts, information) if counts and pmf.counts is not None else None,
        # A bit for each two variables that no table shows together; it is no count: pages without counts have it, too.
        "silent": None if is_silent is None else _page_array(np.packbits(is_silent, bitorder="little")),
        "replicates": describe_page_replicates(model) if isinstance(model, Bootstrap) else None,
        "segments": _describe_page_segments(model) if isinstance(model, Segments) else None,
        "links": page_links(information, LINKS),
    }


def page_labels(variable: Variable) -> list[str]:
    """Return the categories as distinct texts: with both 1 and "1", text gets quotes.

    Examples
    --------
    >>> page_labels(Variable("answer", (1, 2))), page_labels(Variable("answer", (1, "1")))
    (['1', '2'], ['1', "'1'"])
    """
    texts = [str(label) for label in variable.categories]
    if len(set(texts)) < len(texts):
        texts = [repr(label) for label in variable.categories]
    return texts


def page_links(information: NDArray[np.float64], n_each: int) -> list[tuple[int, int, float]]:
    """Return pairs of variables and their mutual information, strongest first: the strongest few of each variable.

    Examples
    --------
    >>> page_links(np.array([[1.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.0]]), 1)
    [(0, 1, 0.3), (1, 2, 0.2)]
    """
    others = information.copy()
    np.fill_diagonal(others, -1.0)
    chosen = np.argsort(-others, axis=1, kind="stable")[:, : min(n_each, len(others) - 1)]
    pairs = {(min(a, int(b)), max(a, int(b))) for a, row in enumerate(chosen) for b in row}
    # Ten digits: more would make the page larger and no line thicker.
    links = ((a, b, float(f"{information[a, b]:.10g}")) for a, b in pairs)
    return sorted(links, key=lambda link: (-link[2], link[:2]))


def render_page(described: dict[str, Any]) -> str:
    """Return the page: the template with the style, the script and what `describe_page` returned.

    The page's security policy allows one script and one style, by their hashes, and no requests. Labels are in the page
    as JSON only.
    """
    from markupsafe import Markup

    folder = files("twoway.explorer")
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    script = _COMMENT.sub("", script)
    policy = (
        f"default-src 'none'; script-src {_page_hash(script)}; style-src {_page_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = page_template("twoway.explorer", "page.html")
    return template.render(model=described, policy=policy, style=Markup(style), script=Markup(script))


def _page_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _describe_page_segments(segments: Segments) -> dict[str, Any]:
    """Return the names of segments, and whether each category is more (1) or less (-1) common in each than chance."""
    return {"names": [_page_text(name) for name in segments.names], "marks": segments.profile.marks.ravel().tolist()}


def _describe_page_counts(counts: Counts, information: Floats) -> dict[str, Any]:
    """Return the counts of each variable, and of the pairs that depend most, as many as half of `BUDGET` holds."""
    schema, largest = counts.schema, dict[tuple[int, ...], int]()
    for index in np.argsort(-counts.totals, kind="stable")[: np.count_nonzero(counts.totals)].tolist():
        for pair in combinations(counts.sets[index].tolist(), 2):
            largest.setdefault(pair, index)
    pairs = sorted(largest, key=lambda pair: (-information[pair], pair))
    # Counts alone, or counts, records and squared weights.
    n_rows, n_bytes_each = (3 if counts.people.size else 1), counts.flat.itemsize
    n_bytes = np.cumsum([4 + n_rows * n_bytes_each * schema.sizes[a] * schema.sizes[b] for a, b in pairs])
    pairs = pairs[: np.searchsorted(n_bytes, BUDGET // 2, side="right")]
    of_names = [counts.sums_of(name) for name in schema.names]
    singles = [np.zeros((3, n)) if sums is None else sums for sums, n in zip(of_names, schema.sizes, strict=True)]
    cells = [np.zeros((3, 0)), *(counts.table_sums(largest[pair], pair).reshape(3, -1) for pair in pairs)]
    return {
        "singles": [_page_array(packed_counts(row)) for row in np.concatenate(singles, axis=1)[:n_rows]],
        "pairs": _page_array(np.array(pairs, dtype=np.min_scalar_type(len(schema)))),
        "areShares": counts.lacks_totals,
        "cells": [_page_array(packed_counts(row)) for row in np.concatenate(cells, axis=1)[:n_rows]],
    }


def _page_array(array: NDArray[Any]) -> dict[str, str]:
    """Return the numbers of an array for the page's script, and their type."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {"kind": little.dtype.str[1:], "base64": base64.b64encode(little.tobytes()).decode()}


def _page_text(text: str) -> str:
    """Return text that a browser can encode: half of a surrogate pair becomes a replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# Replicates take few bits per number, so that the page stays small.

BUDGET = 320_000
"""Replicates take about this many bytes: as many bits per number, and then as many replicates, as that allows."""


def describe_page_replicates(boot: Bootstrap) -> dict[str, Any]:
    """Return how far replicates are from the model, in whole steps, and how often intervals contain the truth.

    All replicates are in 8 bits per number if they are few, else the first ones in 4 bits. At least 20 are kept,
    whatever their size: fewer cannot give the ends of a 90 % interval.

    The distance is that of ``arcsin(sqrt(parameter))``, a scale on which chance moves all parameters of a component
    about equally. A step is as long as needed for the farthest parameter in a column of a matrix: "steps" has its
    length for each column of each matrix, (n_columns,). "codes" are numbers of steps, (1 + count, n_numbers), from
    ``-most``, the low bits of a byte first; "count" is the number of replicates, before which the center comes.
    """
    model = interval_angle(page_numbers(boot.pmf))
    models = [boot.center, *boot.replicates]
    bits = 8 if len(models) * model.size <= BUDGET else 4
    models = models[: max(1 + LEAST_REPLICATES, 8 * BUDGET // bits // model.size)]
    distances = np.array([interval_angle(page_numbers(pmf)) for pmf in models]) - model
    most = 2 ** (bits - 1) - 1
    columns = page_columns(boot.pmf)
    farthest = np.zeros(columns[-1] + 1)
    np.maximum.at(farthest, columns, np.abs(distances).max(axis=0))
    steps = (farthest / most).astype(np.float32)
    lengths = steps.astype(np.float64)[columns]
    codes = np.rint(np.divide(distances, lengths, out=np.zeros_like(distances), where=lengths > 0))
    codes = (np.clip(codes, -most, most) + most).astype(np.uint8).ravel()
    if bits == 4:
        codes = np.append(codes, np.zeros(codes.size % 2, np.uint8)).reshape(-1, 2)
        codes = codes[:, 0] | codes[:, 1] << 4
    arrays = {"steps": _page_array(steps), "codes": _page_array(codes)}
    return {"level": boot.level, "reflected": boot.reflected, "count": len(models) - 1, "bits": bits, **arrays}


def page_numbers(pmf: JointPMF) -> Floats:
    """Return all parameters as a page holds them: the matrices one after the other, row by row."""
    return np.concatenate([matrix.ravel() for matrix in pmf.trees.matrices])


def page_columns(pmf: JointPMF) -> NDArray[np.int64]:
    """Return the column that each of the numbers is in, counted through all matrices."""
    ends = np.cumsum([matrix.shape[1] for matrix in pmf.trees.matrices])
    parts = zip(ends, pmf.trees.matrices, strict=True)
    return np.concatenate([np.tile(np.arange(end - m.shape[1], end), len(m)) for end, m in parts])
