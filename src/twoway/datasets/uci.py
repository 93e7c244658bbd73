"""Four data sets of the UCI Machine Learning Repository: from a local folder, or from OpenML."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twoway.datasets.folder import in_data_folder, where_to_put
from twoway.errors import FileFormatError, MissingFileError

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


_UCI = "https://archive.ics.uci.edu/dataset/"
_CAR_COLUMNS = "buying maint doors persons lug_boot safety class"
_NURSERY_COLUMNS = "parents has_nurs form children housing finance social health class"
_MUSHROOM_COLUMNS = """
    class cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size gill-color stalk-shape
    stalk-root stalk-surface-above-ring stalk-surface-below-ring stalk-color-above-ring stalk-color-below-ring veil-type
    veil-color ring-number ring-type spore-print-color population habitat
"""
_VOTES_COLUMNS = """
    class handicapped-infants water-project-cost-sharing adoption-of-the-budget-resolution physician-fee-freeze
    el-salvador-aid religious-groups-in-schools anti-satellite-test-ban aid-to-nicaraguan-contras mx-missile immigration
    synfuels-corporation-cutback education-spending superfund-right-to-sue crime duty-free-exports
    export-administration-act-south-africa
"""
SOURCES = {
    name: _Source(name, file, _UCI + page, openml_id, n_records, tuple(columns.split()))
    for name, file, page, openml_id, n_records, columns in (
        ("car", "car.data", "19/car+evaluation", 21, 1728, _CAR_COLUMNS),
        ("nursery", "nursery.data", "76/nursery", 26, 12960, _NURSERY_COLUMNS),
        ("mushroom", "agaricus-lepiota.data", "73/mushroom", 24, 8124, _MUSHROOM_COLUMNS),
        ("votes", "house-votes-84.data", "105/congressional+voting+records", 56, 435, _VOTES_COLUMNS),
    )
}


def car() -> pd.DataFrame:
    """Return 1728 cars: six attributes and "class", how acceptable they are.

    Like `nursery`, `mushroom` and `votes`, it is read from the file that UCI ships, in the subfolder "uci" of the
    folder TWOWAY_DATA. If there is no such file, scikit-learn downloads it from OpenML and keeps a copy.
    """
    return _load("car")


def nursery() -> pd.DataFrame:
    """Return 12,960 applications to nursery schools: eight attributes and "class", how they were ranked."""
    return _load("nursery")


def mushroom() -> pd.DataFrame:
    """Return 8124 mushrooms: "class", edible (e) or poisonous (p), and 22 attributes, one with missing cells."""
    return _load("mushroom")


def votes() -> pd.DataFrame:
    """Return the 435 members of the US House of 1984: "class", their party, and 16 votes, some of them missing."""
    return _load("votes")


def _load(name: str) -> pd.DataFrame:
    """Return a data set as text, missing cells as None."""
    source = SOURCES[name]
    path = in_data_folder("uci", source.file)
    frame = _read_file(source, str(path)) if path is not None and path.is_file() else _fetch(source)
    if frame.shape != (source.n_records, len(source.columns)):
        raise FileFormatError(
            f"the data set {source.name!r} has {source.n_records} records of {len(source.columns)} columns; got "
            f"{frame.shape[0]} of {frame.shape[1]}; download it again from {source.page}"
        )
    objects = frame.set_axis(list(source.columns), axis=1).astype(object)
    return objects.where(objects.notna(), None)


def _read_file(source: _Source, path: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path, header=None, dtype=str, na_values=["?"], keep_default_na=False)
    except (ValueError, OSError) as error:  # pandas' parsing errors are ValueErrors
        raise FileFormatError(f"{path!r} is not {source.file!r} as UCI ships it: {error}") from None


def _fetch(source: _Source) -> pd.DataFrame:
    """Return the same from OpenML, in the file's order of columns."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about failed attempts; the error says enough
            bunch = fetch_openml(data_id=source.openml_id, as_frame=True, parser="auto", n_retries=1)
    except (OSError, ValueError) as error:  # no network, or the data set no longer exists
        raise MissingFileError(
            f"the data set {source.name!r} is not in the data folder and could not be downloaded from OpenML "
            f"({error}); get {source.file!r} from {source.page} and put it in {where_to_put('uci', source.file)}"
        ) from None
    target = bunch.target_names[0]
    columns = [column for column in bunch.frame.columns if column != target]
    columns.insert(source.columns.index("class"), target)
    # Some of OpenML's files keep the quotes around their labels.
    text: pd.DataFrame = bunch.frame[columns].astype(object)
    return text.map(lambda label: label.strip("'") if isinstance(label, str) else label)
