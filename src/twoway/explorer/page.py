"""A model as one self-contained HTML page: no server, no network, no script but the page's own."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoway import __version__
from twoway.explorer.replicates import pack
from twoway.model.information import pairwise_information
from twoway.model.pmf import JointPMF, check_model
from twoway.schema import Variable
from twoway.storage.container import check_path, whole_or_not_at_all
from twoway.uncertainty.bootstrap import Bootstrap

LINKS = 20
"""The page contains the strongest links of each variable, to this many others."""

# One script, in the order in which its parts use one another.
_SCRIPTS = ("model.js", "intervals.js", "wording.js", "state.js", "cards.js", "map.js", "components.js", "main.js")


def explore(pmf: JointPMF | Bootstrap, path: str | os.PathLike[str], *, title: str | None = None) -> None:
    """Write a page on which you click what is known and see all other variables change.

    The page contains the exact model: it shows what `JointPMF.given` answers. It is one file that needs neither a
    server nor a network, so you can mail it, put it in a shared folder or open it from a disk.

    Parameters
    ----------
    pmf
        The model; or a `Bootstrap` of it, which adds an interval to each number on the page.
    path
        Where to write; an existing file is replaced once the new one is complete.
    title
        The headline; by default the file's name.

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
    if not isinstance(pmf, Bootstrap):
        check_model(pmf)
    check_path(path)
    text = render(describe(pmf, Path(path).stem if title is None else title))
    with whole_or_not_at_all(path) as stream:
        stream.write(text.encode())


def describe(model: JointPMF | Bootstrap, title: str) -> dict[str, Any]:
    """Return everything that the page shows, as JSON; the exact parameters in base64."""
    pmf = model.pmf if isinstance(model, Bootstrap) else model
    return {
        "title": _encodable(title),
        "version": __version__,
        "records": None if pmf.report is None else pmf.report.n_records,
        "warnings": [] if pmf.report is None else [_encodable(warning) for warning in pmf.report.warnings],
        "variables": [
            {"name": variable.name, "categories": label_texts(variable), "values": variable.values}
            for variable in pmf.schema
        ],
        "weights": _base64(pmf.weights),
        "factors": _base64(pmf.stacked),
        "replicates": _describe_replicates(model) if isinstance(model, Bootstrap) else None,
        "links": strongest_links(pairwise_information(pmf.weights, pmf.factors), LINKS),
    }


def label_texts(variable: Variable) -> list[str]:
    """Return the categories as distinct texts: with both 1 and "1", text gets quotes.

    Examples
    --------
    >>> label_texts(Variable("answer", (1, 2))), label_texts(Variable("answer", (1, "1")))
    (['1', '2'], ['1', "'1'"])
    """
    texts = [str(label) for label in variable.categories]
    if len(set(texts)) < len(texts):
        texts = [repr(label) for label in variable.categories]
    return texts


def strongest_links(information: NDArray[np.float64], n_each: int) -> list[tuple[int, int, float]]:
    """Return pairs of variables and their mutual information, strongest first: the strongest few of each variable.

    Examples
    --------
    >>> strongest_links(np.array([[1.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.0]]), 1)
    [(0, 1, 0.3), (1, 2, 0.2)]
    """
    others = information.copy()
    np.fill_diagonal(others, -1.0)
    chosen = np.argsort(-others, axis=1, kind="stable")[:, : min(n_each, len(others) - 1)]
    pairs = {(min(a, int(b)), max(a, int(b))) for a, row in enumerate(chosen) for b in row}
    # Ten digits: more would make the page larger and no line thicker.
    links = ((a, b, float(f"{information[a, b]:.10g}")) for a, b in pairs)
    return sorted(links, key=lambda link: (-link[2], link[:2]))


def render(described: dict[str, Any]) -> str:
    """Return the page: the template with the style, the script and what `describe` returned.

    The page's security policy allows one script and one style, by their hashes, and no requests. Labels are in the page
    as JSON only.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    folder = files("twoway.explorer")
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_fingerprint(script)}; style-src {_fingerprint(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=PackageLoader("twoway.explorer", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment.get_template("page.html").render(
        model=described, policy=policy, style=Markup(style), script=Markup(script)
    )


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _describe_replicates(boot: Bootstrap) -> dict[str, Any]:
    packed = pack(boot)
    arrays = {"steps": _base64(packed.steps, "<f4"), "codes": _base64(packed.codes, "u1")}
    return {"level": boot.level, "reflected": boot.reflected, "count": packed.count, "bits": packed.bits, **arrays}


def _base64(array: NDArray[Any], dtype: str = "<f8") -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def _encodable(text: str) -> str:
    """Return text that a browser can encode: half of a surrogate pair becomes a replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
