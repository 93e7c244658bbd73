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
        What GroupLens ships: the zip, the folder that it unpacks to, or the file in it. A mere name, such as "ml-20m",
        is looked for in the folder "movielens" of the folder that TWOWAY_DATA names too, as a folder or a zip.
    """
    import pyarrow as pa
    from pyarrow import csv

    found = _find(Path(path))
    with ExitStack() as stack:
        name, content = _open(found, stack)
        header: dict[str, str] = {"userId": "user", "movieId": "item", "rating": "rating"}
        read, parse = csv.ReadOptions(), csv.ParseOptions()
        if name.endswith(".dat"):
            # user::item::rating::timestamp: split at each colon, every other column is empty.
            read = csv.ReadOptions(column_names=["userId", "", "movieId", " ", "rating", "  ", "timestamp"])
            parse = csv.ParseOptions(delimiter=":")
        types = {"userId": pa.int32(), "movieId": pa.int32(), "rating": pa.float32()}
        convert = csv.ConvertOptions(include_columns=list(header), column_types=types)
        try:
            table = csv.read_csv(content, read_options=read, parse_options=parse, convert_options=convert)
        except (pa.ArrowInvalid, pa.ArrowKeyError, zipfile.BadZipFile) as error:
            raise FileFormatError(f"{name!r} in {str(found)!r} is not MovieLens's file of ratings: {error}") from None
    ratings: pd.DataFrame = table.rename_columns(list(header.values())).to_pandas()
    return ratings


def _find(path: Path) -> Path:
    """Return the folder, zip or file meant, or raise the error that says where to get one."""
    candidates = [path]
    named = in_data_folder("movielens", path.name)
    if len(path.parts) == 1 and named is not None:
        candidates += [named, named.with_name(f"{path.name}.zip")]
    for candidate in candidates:
        if candidate.is_file() or any((candidate / file).is_file() for file in _FILES):
            return candidate
    if path.is_dir():
        raise MissingFileError(f"the folder {str(path)!r} has neither {' nor '.join(_FILES)}; get one from {PAGE}")
    name = f"{path.name.removesuffix('.zip')}.zip"
    raise MissingFileError(
        f"there are no MovieLens ratings at {str(path)!r}; get {name!r} from {PAGE} and give the path to it, or put it "
        f"to {where_to_put('movielens', name)}"
    )


def _open(found: Path, stack: ExitStack) -> tuple[str, str | IO[bytes]]:
    """Return the name of the file of ratings, and what it can be read from."""
    if found.is_dir():
        file = next(file for file in _FILES if (found / file).is_file())
        return file, str(found / file)
    if not zipfile.is_zipfile(found):
        return found.name, str(found)
    archive = stack.enter_context(zipfile.ZipFile(found))
    for name in archive.namelist():
        if Path(name).name in _FILES:
            return name, stack.enter_context(archive.open(name))
    raise FileFormatError(f"the zip {str(found)!r} has neither {' nor '.join(_FILES)}; get another from {PAGE}")
