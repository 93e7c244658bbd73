"""MovieLens ratings as GroupLens ships them: ratings.csv or ratings.dat, in a folder or in the zip, any size."""

from __future__ import annotations

import os
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from twoway.datasets.folder import in_data_folder, where_to_put
from twoway.errors import FileFormatError, MissingFileError

if TYPE_CHECKING:
    import pandas as pd

PAGE = "https://grouplens.org/datasets/movielens/"
_FILES = ("ratings.csv", "ratings.dat")


def movielens(path: str | os.PathLike[str] = "ml-latest-small") -> pd.DataFrame:
    """Return ratings with the columns "user", "item" and "rating".

    Parameters
    ----------
    path
        What GroupLens ships: the zip, the folder that it unpacks to, or the file in it. A name without a folder, such
        as "ml-20m", is also searched for in the subfolder "movielens" of the folder TWOWAY_DATA, as a folder or a zip.
    """
    import pyarrow as pa
    from pyarrow import csv

    source = _find(Path(path))
    with ExitStack() as stack:
        name, content = _open(source, stack)
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


def _find(path: Path) -> Path:
    """Return the file of ratings or the zip meant, or raise an error that explains where to get it."""
    places = [path]
    if len(path.parts) == 1 and (named := in_data_folder("movielens", path.name)) is not None:
        places += [named, named.with_name(f"{path.name}.zip")]
    for file in (file for place in places for file in (place, *(place / name for name in _FILES))):
        if file.is_file():
            return file
    if path.is_dir():
        raise MissingFileError(f"the folder {str(path)!r} has neither {' nor '.join(_FILES)}; get one from {PAGE}")
    name = f"{path.name.removesuffix('.zip')}.zip"
    raise MissingFileError(
        f"no MovieLens ratings at {str(path)!r}; get {name!r} from {PAGE} and pass the path to it, or put it in "
        f"{where_to_put('movielens', name)}"
    )


def _open(source: Path, stack: ExitStack) -> tuple[str, str | IO[bytes]]:
    """Return the name of the file of ratings, and its path or a stream of its content."""
    if not zipfile.is_zipfile(source):
        return source.name, str(source)
    archive = stack.enter_context(zipfile.ZipFile(source))
    for name in archive.namelist():
        if Path(name).name in _FILES:
            return name, stack.enter_context(archive.open(name))
    raise FileFormatError(f"the zip {str(source)!r} has neither {' nor '.join(_FILES)}; get another from {PAGE}")
