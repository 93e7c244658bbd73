"""Public data sets: typed in, from scikit-learn, or from files in the folder that TWOWAY_DATA names in the environment.

Famous published tables of counts, handwritten digits, four data sets of the UCI Machine Learning Repository, and
MovieLens ratings as GroupLens ships them: ratings.csv or ratings.dat, in a folder or in the zip, any size.
"""

from __future__ import annotations

import os
import tomllib
import warnings
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from twoway.errors import FileFormatError, MissingFileError, check_whole_number
from twoway.lazy_imports import pa, pd

_PUBLIC = tomllib.loads((files(__package__) / "public.toml").read_text(encoding="utf-8"))

# Published counts, expanded to one record per person


def titanic() -> pd.DataFrame:
    """Return the 2201 people on board the Titanic: "class", "sex", "age" and "survived".

    The counts are those of the British Board of Trade's inquiry (1912), as printed by Dawson (The "unusual episode"
    data revisited, Journal of Statistics Education, 1995).

    Examples
    --------
    >>> titanic()["survived"].value_counts().to_dict()
    {'no': 1490, 'yes': 711}
    """
    return _expand_counts("titanic")


def berkeley_admissions() -> pd.DataFrame:
    """Return the 4526 applicants to the six largest departments of Berkeley in 1973: "department", "sex", "admitted".

    A smaller share of the women was admitted overall, but not in most departments: more of them applied
    where few were admitted.
    The counts are those of Bickel, Hammel and O'Connell (Sex bias in graduate admissions, Science, 1975).

    Examples
    --------
    >>> frame = berkeley_admissions()
    >>> (frame["admitted"] == "yes").groupby(frame["sex"]).mean().round(2).to_dict()
    {'female': 0.3, 'male': 0.45}
    """
    return _expand_counts("berkeley_admissions")


def _expand_counts(name: str) -> pd.DataFrame:
    table = _PUBLIC["counts"][name]
    variables: dict[str, list[str]] = table["variables"]
    cells = pd.MultiIndex.from_product(list(variables.values()), names=list(variables)).to_frame(index=False)
    return cells.loc[np.repeat(cells.index, table["counts"])].reset_index(drop=True)


# scikit-learn


def digits(levels: int = 4) -> pd.DataFrame:
    """Return 1797 handwritten digits: a column "digit" and 64 columns "r0c0" … "r7c7" of grey levels.

    Parameters
    ----------
    levels
        The number of grey levels, from 2 to 17; 0 is white.

    Examples
    --------
    >>> digits(levels=4).shape
    (1797, 65)
    """
    from sklearn.datasets import load_digits

    check_whole_number("levels", levels, 2, 17)
    bunch = load_digits()
    grey = np.minimum(bunch.data.astype(int) * levels // 17, levels - 1)
    frame = pd.DataFrame(grey, columns=[f"r{row}c{column}" for row in range(8) for column in range(8)])
    frame.insert(0, "digit", bunch.target.astype(int))
    return frame


# UCI


class _UciSource(NamedTuple):
    name: str
    file: str
    """As UCI ships it, in the folder "uci"."""
    page: str
    openml_id: int
    n_records: int
    columns: Sequence[str]
    """In the order of the file; one of them is "class". OpenML has the class last."""


UCI_SOURCES = {name: _UciSource(name, **source) for name, source in _PUBLIC["uci"].items()}


def car() -> pd.DataFrame:
    """Return 1728 cars: six attributes and "class", how acceptable they are.

    Like `nursery`, `mushroom` and `votes`, it is read from the file that UCI ships, in the subfolder "uci" of the
    folder TWOWAY_DATA. If there is no such file, scikit-learn downloads it from OpenML and keeps a copy.
    """
    return _load_uci("car")


def nursery() -> pd.DataFrame:
    """Return 12,960 applications to nursery schools: eight attributes and "class", how they were ranked."""
    return _load_uci("nursery")


def mushroom() -> pd.DataFrame:
    """Return 8124 mushrooms: "class", edible (e) or poisonous (p), and 22 attributes, one with missing cells."""
    return _load_uci("mushroom")


def votes() -> pd.DataFrame:
    """Return the 435 members of the US House of 1984: "class", their party, and 16 votes, some of them missing."""
    return _load_uci("votes")


def _load_uci(name: str) -> pd.DataFrame:
    """Return a data set as text, missing cells as None."""
    source = UCI_SOURCES[name]
    path = in_dataset_folder("uci", source.file)
    frame = _read_uci(source, str(path)) if path is not None and path.is_file() else _fetch_openml(source)
    if frame.shape != (source.n_records, len(source.columns)):
        raise FileFormatError(
            f"the data set {source.name!r} has {source.n_records} records of {len(source.columns)} columns; got "
            f"{frame.shape[0]} of {frame.shape[1]}; download it again from {source.page}"
        )
    objects = frame.set_axis(list(source.columns), axis=1).astype(object)
    return objects.where(objects.notna(), None)


def _read_uci(source: _UciSource, path: str) -> pd.DataFrame:
    try:
        return pd.read_csv(path, header=None, dtype=str, na_values=["?"], keep_default_na=False)
    except (ValueError, OSError) as error:  # pandas' parsing errors are ValueErrors
        raise FileFormatError(f"{path!r} is not {source.file!r} as UCI ships it: {error}") from None


def _fetch_openml(source: _UciSource) -> pd.DataFrame:
    """Return the same from OpenML, in the file's order of columns."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about failed attempts; the error says enough
            bunch = fetch_openml(data_id=source.openml_id, as_frame=True, parser="auto", n_retries=1)
    except (OSError, ValueError) as error:  # no network, or the data set no longer exists
        raise MissingFileError(
            f"the data set {source.name!r} is not in the data folder and could not be downloaded from OpenML "
            f"({error}); get {source.file!r} from {source.page} and put it in {where_dataset_goes('uci', source.file)}"
        ) from None
    target = bunch.target_names[0]
    columns = [column for column in bunch.frame.columns if column != target]
    columns.insert(source.columns.index("class"), target)
    # Some of OpenML's files keep the quotes around their labels.
    text: pd.DataFrame = bunch.frame[columns].astype(object)
    return text.map(lambda label: label.strip("'") if isinstance(label, str) else label)


# MovieLens

_GROUPLENS = "https://grouplens.org/datasets/movielens/"
_RATINGS = ("ratings.csv", "ratings.dat")


def movielens(path: str | os.PathLike[str] = "ml-latest-small") -> pd.DataFrame:
    """Return ratings with the columns "user", "item" and "rating".

    Parameters
    ----------
    path
        What GroupLens ships: the zip, the folder that it unpacks to, or the file in it. A name without a folder, such
        as "ml-20m", is also searched for in the subfolder "movielens" of the folder TWOWAY_DATA, as a folder or a zip.
    """
    from pyarrow import csv

    source = _find_movielens(Path(path))
    with ExitStack() as stack:
        name, content = _open_movielens(source, stack)
        read, parse = csv.ReadOptions(), csv.ParseOptions()
        if name.endswith(".dat"):
            # user::item::rating::timestamp: split at each colon, every other column is empty.
            read = csv.ReadOptions(column_names=["userId", "", "movieId", " ", "rating", "  ", "timestamp"])
            parse = csv.ParseOptions(delimiter=":")
        types = {"userId": pa.int32(), "movieId": pa.int32(), "rating": pa.float32()}
        convert = csv.ConvertOptions(include_columns=list(types), column_types=types)
        try:
            table = csv.read_csv(content, read_options=read, parse_options=parse, convert_options=convert)
        except (pa.ArrowInvalid, pa.ArrowKeyError, zipfile.BadZipFile) as error:
            raise FileFormatError(f"{name!r} in {str(source)!r} is not a MovieLens file of ratings: {error}") from None
    ratings: pd.DataFrame = table.rename_columns(["user", "item", "rating"]).to_pandas()
    return ratings


def _find_movielens(path: Path) -> Path:
    """Return the file of ratings or the zip meant, or raise an error that explains where to get it."""
    places = [path]
    if len(path.parts) == 1 and (named := in_dataset_folder("movielens", path.name)) is not None:
        places += [named, named.with_name(f"{path.name}.zip")]
    for file in (file for place in places for file in (place, *(place / name for name in _RATINGS))):
        if file.is_file():
            return file
    if path.is_dir():
        raise MissingFileError(
            f"the folder {str(path)!r} has neither {' nor '.join(_RATINGS)}; get one from {_GROUPLENS}"
        )
    name = f"{path.name.removesuffix('.zip')}.zip"
    raise MissingFileError(
        f"no MovieLens ratings at {str(path)!r}; get {name!r} from {_GROUPLENS} and pass the path to it, or put it in "
        f"{where_dataset_goes('movielens', name)}"
    )


def _open_movielens(source: Path, stack: ExitStack) -> tuple[str, str | IO[bytes]]:
    """Return the name of the file of ratings, and its path or a stream of its content."""
    if not zipfile.is_zipfile(source):
        return source.name, str(source)
    archive = stack.enter_context(zipfile.ZipFile(source))
    for name in archive.namelist():
        if Path(name).name in _RATINGS:
            return name, stack.enter_context(archive.open(name))
    raise FileFormatError(
        f"the zip {str(source)!r} has neither {' nor '.join(_RATINGS)}; get another from {_GROUPLENS}"
    )


# The folder of data files


def in_dataset_folder(*parts: str) -> Path | None:
    """Return a path in the folder TWOWAY_DATA, whether it exists or not; None if the variable is not set."""
    folder = os.environ.get("TWOWAY_DATA")
    return Path(folder, *parts) if folder else None


def where_dataset_goes(*parts: str) -> str:
    """Return in words where a file is expected."""
    path = in_dataset_folder(*parts)
    if path is None:
        return f"a folder as {'/'.join(parts)!r}, and name the folder in the environment variable TWOWAY_DATA (not set)"
    return f"the folder TWOWAY_DATA as {str(path)!r}"
