"""One file of a header and arrays: versioned, written atomically, without pickle.

The file is an ordinary zip archive, stored uncompressed: ``header.json`` and one ``.npy`` for each
array, so that any language opens it and zip's checksums find a damaged one. Nothing in it depends on
the time or the place of writing: the same content gives the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from twoway import __version__
from twoway.arrays import Array
from twoway.errors import DataError, FileFormatError, TwowayError, missing_file_error
from twoway.storage.atomic_files import PathName, atomic_file, check_file_path

FORMAT_VERSION = 2
MAX_BYTES = 2**32
"""No member of a file may be larger: 4 GiB is far above any model and far below a hostile claim."""

MAX_HEADER = 2**25
"""No header may be longer, in bytes: 32 MiB name a million categories, and parsed they take a multiple of that."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MOST_MEMBERS = 100
_MOST_DIRECTORY = 2**16
# The records that end a zip archive; of what they tell, the signature, and the members and bytes of the directory.
_END = struct.Struct("<4s6xHI6x")
_LOCATOR = struct.Struct("<4s4xQ4x")
_LARGE_END = struct.Struct("<4s28xQQ8x")
# Plain numbers in C order: the type, and up to four sizes.
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|](?:b1|[iu][1248]|f[248]))', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,15},? ?){0,4})\), \} *\n",
    re.DOTALL,
)
# What zip, JSON and numpy raise about invalid bytes.
_FOREIGN = (zipfile.BadZipFile, LookupError, ValueError, EOFError, RuntimeError, OSError)


def write_container(path: PathName, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path
        Where to write; an existing file is replaced only once the new one is complete.
    kind
        What the file holds, "model" or "tables"; `read_container` checks it.
    header
        Anything JSON can hold; keys are written sorted.
    arrays
        Named arrays of numbers.
    """
    text = json.dumps(
        {"format": "twoway", "version": FORMAT_VERSION, "kind": kind, "written_by": f"twoway {__version__}", **header},
        sort_keys=True,
        allow_nan=False,
    ).encode()
    if len(text) > MAX_HEADER:
        raise DataError(
            f"cannot write {str(path)!r}: names, categories and notes take {len(text):,} bytes, at most "
            f"{MAX_HEADER:,} are written; leave variables out or merge categories"
        )
    with atomic_file(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json", _EPOCH), text)
        for name in sorted(arrays):
            buffer = io.BytesIO()
            array = np.ascontiguousarray(arrays[name])
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())


def container_kind(path: PathName) -> str | None:
    """Return what a twoway file holds, "model" or "tables"; None for any other file."""
    try:
        with _opened_container(path) as archive:
            return str(_container_header(archive)["kind"])
    except _FOREIGN:
        return None


def read_container(path: PathName, kind: str | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and the arrays of a file; nothing in it is executed.

    A file that is not there, truncated, foreign, of another kind or of a newer version raises
    `FileFormatError` (`MissingFileError` for the first).
    """
    source = Path(check_file_path(path))
    shown = repr(str(source))
    if source.is_dir():
        raise FileFormatError(f"{shown} is a folder, not a twoway file")
    try:
        with _opened_container(source) as archive:
            header = _container_header(archive)
            version = header.get("version")
            if not isinstance(version, int) or version > FORMAT_VERSION:
                raise FileFormatError(
                    f"{shown} has format version {version!r}; this twoway reads versions up to {FORMAT_VERSION}: "
                    "install a newer one"
                )
            if kind is not None and header.get("kind") != kind:
                raise FileFormatError(f"{shown} holds {header.get('kind')!r}, not {kind!r}")
            if version < 2:
                from twoway.storage.version_1 import add_version_1_edges

                add_version_1_edges(header)
            arrays = {
                name.removesuffix(".npy"): _container_array(archive.read(name))
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except FileNotFoundError:
        raise missing_file_error(source) from None
    except (FileFormatError, PermissionError):
        raise
    except _FOREIGN as error:
        raise FileFormatError(
            f"{shown} is not a twoway file, or is damaged: {error}; if it holds records, fit a model first"
        ) from error
    return header, arrays


@contextmanager
def checked_content(path: PathName, what: str) -> Iterator[None]:
    """Raise `FileFormatError` where objects are made from the content of a file, and it is not what it must be."""
    try:
        yield
    except (TwowayError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise FileFormatError(f"{str(path)!r} is not a valid {what}: {error}") from error


@contextmanager
def _opened_container(path: PathName) -> Iterator[zipfile.ZipFile]:
    """Give the archive in a file whose end announces no more than is written: zipfile reads all that is there."""
    with open(path, "rb") as stream:
        _check_container_end(stream)
        with zipfile.ZipFile(stream) as archive:
            yield archive


def _check_container_end(stream: BinaryIO) -> None:
    """Raise where a file does not end as a small archive does: without a comment, with a directory of few members."""
    size = stream.seek(0, os.SEEK_END)
    ends = _LARGE_END.size + _LOCATOR.size + _END.size
    stream.seek(max(0, size - ends))
    tail = stream.read(ends).rjust(ends, b"\0")
    signature, members, length = _END.unpack_from(tail, ends - _END.size)
    is_end = signature == b"PK\5\6" and tail[-2:] == b"\0\0"
    locator, place = _LOCATOR.unpack_from(tail, _LARGE_END.size)
    if locator == b"PK\6\7":  # of an archive beyond 4 GiB; the record before it is read instead
        large, members, length = _LARGE_END.unpack_from(tail, 0)
        is_end &= large == b"PK\6\6" and place == size - ends
    if not is_end:
        raise ValueError("it does not end as a twoway file does")
    if members > _MOST_MEMBERS or length > _MOST_DIRECTORY:
        raise ValueError(
            f"its directory has {members:,} members in {length:,} bytes, and that of a twoway file at most "
            f"{_MOST_MEMBERS} in {_MOST_DIRECTORY:,}"
        )


def _container_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the header of an archive that is as it is written; nothing larger than the file is read into memory."""
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise ValueError(f"it holds {len(members):,} members, and a twoway file at most {_MOST_MEMBERS}")
    names = [member.filename for member in members]
    for member in members:
        # zipfile allocates as much memory as the header claims for the compressed bytes.
        is_plain = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size <= MAX_BYTES
        if not is_plain or names.count(member.filename) > 1:
            raise ValueError(f"it holds a member {member.filename[:100]!r} that no twoway file has")
    if archive.fp is None or sum(member.file_size for member in members) > os.fstat(archive.fp.fileno()).st_size:
        raise ValueError("its members claim more bytes than the file has")
    length = archive.getinfo("header.json").file_size
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length:,} bytes, and that of a twoway file at most {MAX_HEADER:,}")
    text = archive.read("header.json").decode()
    integer, number = _container_integer, _container_number
    header = json.loads(text, parse_int=integer, parse_float=number, parse_constant=number)
    if not isinstance(header, dict) or header.get("format") != "twoway":
        raise ValueError("its header is not that of a twoway file")
    if "\\ud" in text.lower():
        json.dumps(header, ensure_ascii=False).encode()  # half of a surrogate pair raises: no text could be printed
    return header


def _container_number(text: str) -> float:
    """Return a number of the header; NaN and infinity, which could not be written again, are refused."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"its header holds {text[:20]}, which no twoway file does")
    return number


def _container_integer(text: str) -> int:
    """Return a whole number of the header, if a float could hold it too."""
    _container_number(text)
    return int(text)


def _container_array(content: bytes) -> Array:
    """Return the array in the bytes of an ``.npy`` file as `write_container` makes it, for reading only.

    numpy's own reader evaluates the header as Python, with more types, warnings and recursion than is good for a
    file from elsewhere.
    """
    match = _ARRAY.match(content)
    if match is None:
        raise ValueError("an array has an invalid header")
    dtype, shape = np.dtype(match[1].decode()), tuple(int(size) for size in match[2].split(b",") if size.strip())
    if math.prod(shape) * dtype.itemsize != len(content) - match.end():
        raise ValueError("an array does not have the size that its header claims")
    return np.frombuffer(content, dtype, offset=match.end()).reshape(shape)
