"""Four data sets of the UCI Machine Learning Repository: from a local folder, else from OpenML."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twoway.datasets.folder import in_data_folder, where_to_put
from twoway.errors import DataError, FileFormatError, MissingFileError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class _Source:
    name: str
    file: str
    """As UCI ships it, in the folder "uci"."""
    page: str
    openml_id: int
    n_records: int
    columns: tuple[str, ...]
    """In the order of the file; one of them is "class". OpenML has the class last."""


_CAR = _Source(
    "car",
    "car.data",
    "https://archive.ics.uci.edu/dataset/19/car+evaluation",
    21,
    1728,
    ("buying", "maint", "doors", "persons", "lug_boot", "safety", "class"),
)
_NURSERY = _Source(
    "nursery",
    "nursery.data",
    "https://archive.ics.uci.edu/dataset/76/nursery",
    26,
    12960,
    ("parents", "has_nurs", "form", "children", "housing", "finance", "social", "health", "class"),
)
_MUSHROOM = _Source(
    "mushroom",
    "agaricus-lepiota.data",
    "https://archive.ics.uci.edu/dataset/73/mushroom",
    24,
    8124,
    (
        "class",
        "cap-shape",
        "cap-surface",
        "cap-color",
        "bruises",
        "odor",
        "gill-attachment",
        "gill-spacing",
        "gill-size",
        "gill-color",
        "stalk-shape",
        "stalk-root",
        "stalk-surface-above-ring",
        "stalk-surface-below-ring",
        "stalk-color-above-ring",
        "stalk-color-below-ring",
        "veil-type",
        "veil-color",
        "ring-number",
        "ring-type",
        "spore-print-color",
        "population",
        "habitat",
    ),
)
_VOTES = _Source(
    "votes",
    "house-votes-84.data",
    "https://archive.ics.uci.edu/dataset/105/congressional+voting+records",
    56,
    435,
    (
        "class",
        "handicapped-infants",
        "water-project-cost-sharing",
        "adoption-of-the-budget-resolution",
        "physician-fee-freeze",
        "el-salvador-aid",
        "religious-groups-in-schools",
        "anti-satellite-test-ban",
        "aid-to-nicaraguan-contras",
        "mx-missile",
        "immigration",
        "synfuels-corporation-cutback",
        "education-spending",
        "superfund-right-to-sue",
        "crime",
        "duty-free-exports",
        "export-administration-act-south-africa",
    ),
)


def car() -> pd.DataFrame:
    """Return 1728 cars: six attributes and "class", how acceptable they are.

    Like `nursery`, `mushroom` and `votes`, it is read from the file that UCI ships, in the folder "uci" of the folder
    that TWOWAY_DATA names; where there is none, it comes from OpenML through scikit-learn, which keeps a copy.
    """
    return _load(_CAR)


def nursery() -> pd.DataFrame:
    """Return 12,960 applications to nursery schools: eight attributes and "class", how they were ranked."""
    return _load(_NURSERY)


def mushroom() -> pd.DataFrame:
    """Return 8124 mushrooms: "class", edible (e) or poisonous (p), and 22 attributes; one of them has holes."""
    return _load(_MUSHROOM)


def votes() -> pd.DataFrame:
    """Return the 435 members of the US House of 1984: "class", their party, and 16 votes, some of them missing."""
    return _load(_VOTES)


def _load(source: _Source) -> pd.DataFrame:
    """Return a data set as text, missing cells as None."""
    path = in_data_folder("uci", source.file)
    frame = _read_file(source, str(path)) if path is not None and path.is_file() else _fetch(source)
    if frame.shape != (source.n_records, len(source.columns)):
        raise FileFormatError(
            f"the data set {source.name!r} has {source.n_records} records of {len(source.columns)} columns; got "
            f"{frame.shape[0]} of {frame.shape[1]}; get it anew from {source.page}"
        )
    return frame


def _read_file(source: _Source, path: str) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_csv(path, header=None, dtype=str, na_values=["?"], keep_default_na=False)
    except (ValueError, OSError) as error:  # pandas' errors of parsing are ValueErrors
        raise FileFormatError(f"{path!r} is not {source.file!r} as UCI ships it: {error}") from None
    if frame.shape[1] == len(source.columns):
        frame.columns = list(source.columns)
    return _plain(frame)


def _fetch(source: _Source) -> pd.DataFrame:
    """Return the same from OpenML."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tries that failed; the error tells enough
            bunch = fetch_openml(data_id=source.openml_id, as_frame=True, parser="auto", n_retries=1)
    except (OSError, ValueError) as error:  # no network, or no such data set any more
        raise MissingFileError(
            f"the data set {source.name!r} is neither here nor to be had from OpenML ({error}); get {source.file!r} "
            f"from {source.page} and put it to {where_to_put('uci', source.file)}"
        ) from None
    frame, target = bunch.frame, bunch.target_names[0]
    features = [column for column in frame.columns if column != target]
    names = [column for column in source.columns if column != "class"]
    if len(features) != len(names):
        raise DataError(f"OpenML's data set {source.openml_id} has {len(features)} attributes, not {len(names)}")
    renamed = frame.rename(columns={**dict(zip(features, names, strict=True)), target: "class"})
    # Some of OpenML's files keep the quotes around their labels.
    text = renamed[list(source.columns)].astype(object)
    return _plain(text.map(lambda label: label.strip("'") if isinstance(label, str) else label))


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of objects: text, or None where a cell is missing."""
    objects = frame.astype(object)
    return objects.where(objects.notna(), None)
