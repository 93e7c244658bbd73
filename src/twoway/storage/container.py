"""One file of a header and arrays: versioned, written atomically, without pickle.

The file is an ordinary zip archive, stored uncompressed: ``header.json`` and one ``.npy`` for each
array, so that any language opens it and zip's checksums find a damaged one. Nothing in it depends on
the time or the place of writing: the same content gives the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twoway import __version__
from twoway.errors import DataError, FileFormatError, MissingFileError, OutputError, TwowayError
from twoway.text import ADDRESS, brief, without_password

PathName: TypeAlias = str | os.PathLike[str]
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


def write(path: PathName, kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path
        Where to write; an existing file is replaced only once the new one is complete.
    kind
        What the file holds, "model" or "tables"; ``read`` checks it.
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
    with whole_or_not_at_all(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json", _EPOCH), text)
        for name in sorted(arrays):
            buffer = io.BytesIO()
            array = np.ascontiguousarray(arrays[name])
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())


def check_path(path: object) -> PathName:
    """Return the name of a file, or raise where something else was given."""
    if not isinstance(path, str | os.PathLike):
        raise DataError(f"a file name must be text or a path, not {brief(path)}")
    return path


def missing_file(path: PathName) -> MissingFileError:
    """Return the error for a missing file, with a special message for an address."""
    name = os.fspath(path)
    if ADDRESS.match(name):
        return MissingFileError(f"{without_password(name)!r} is an address; only files on this machine can be read")
    return MissingFileError(f"there is no file {name!r}")


@contextmanager
def whole_or_not_at_all(path: PathName) -> Iterator[BinaryIO]:
    """Give a stream whose content becomes a file once all of it is written; until then, nothing changes.

    What is replaced keeps its permissions, and a link to a file stays a link. A device or a pipe is written to as it
    is. An error of the operating system names the file meant.
    """
    meant = Path(check_path(path))
    if meant.is_dir():
        raise OutputError(f"cannot write {str(meant)!r}: it is a folder; name a file")
    if not meant.parent.is_dir():
        raise OutputError(f"cannot write {str(meant)!r}: there is no folder {str(meant.parent)!r}")
    try:
        if meant.exists() and not meant.is_file():
            whole = io.BytesIO()  # not every device has a position
            yield whole
            meant.write_bytes(whole.getvalue())
            return
        target = Path(os.path.realpath(meant))
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        # A name of its own: whoever else writes the same file now does not get in the way.
        scratch = target.with_name(f".twoway-{os.urandom(8).hex()}.part")
        try:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if mode is not None:
                os.chmod(scratch, mode)
            os.replace(scratch, target)
        except BaseException:
            with contextlib.suppress(OSError):  # such as that the folder is gone: the first error is raised
                scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno is None or isinstance(error, TwowayError):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(meant)) from error


@contextmanager
def alone_in_folder(path: PathName) -> Iterator[None]:
    """Wait until no other process that asks so works on a file of this folder; for what reads, changes and writes one.

    Where the system or the file system knows no locks, there is no waiting.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def container_kind(path: PathName) -> str | None:
    """Return what a twoway file holds, "model" or "tables"; None for any other file."""
    try:
        with _opened_archive(path) as archive:
            return str(_read_header(archive)["kind"])
    except _FOREIGN:
        return None


def read(path: PathName, kind: str | None = None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file; nothing in it is executed.

    A file that is not there, truncated, foreign, of another kind or of a newer version raises
    `FileFormatError` (`MissingFileError` for the first).
    """
    source = Path(check_path(path))
    shown = repr(str(source))
    if source.is_dir():
        raise FileFormatError(f"{shown} is a folder, not a twoway file")
    try:
        with _opened_archive(source) as archive:
            header = _read_header(archive)
            version = header.get("version")
            if not isinstance(version, int) or version > FORMAT_VERSION:
                raise FileFormatError(
                    f"{shown} has format version {version!r}; this twoway reads versions up to {FORMAT_VERSION}: "
                    "install a newer one"
                )
            if kind is not None and header.get("kind") != kind:
                raise FileFormatError(f"{shown} holds {header.get('kind')!r}, not {kind!r}")
            if version < 2:
                _add_version_1_edges(header)
            arrays = {
                name.removesuffix(".npy"): _read_array(archive.read(name))
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except FileNotFoundError:
        raise missing_file(source) from None
    except (FileFormatError, PermissionError):
        raise
    except _FOREIGN as error:
        raise FileFormatError(f"{shown} is not a twoway file, or is damaged: {error}") from error
    return header, arrays


@contextmanager
def _opened_archive(path: PathName) -> Iterator[zipfile.ZipFile]:
    """Give the archive in a file whose end announces no more than `write` makes: zipfile reads all that is there."""
    with open(path, "rb") as stream:
        _check_archive_end(stream)
        with zipfile.ZipFile(stream) as archive:
            yield archive


def _check_archive_end(stream: BinaryIO) -> None:
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


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the header of an archive that is what `write` makes; nothing larger than the file is read into memory."""
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
    header = json.loads(text, parse_int=_header_integer, parse_float=_header_number, parse_constant=_header_number)
    if not isinstance(header, dict) or header.get("format") != "twoway":
        raise ValueError("its header is not that of a twoway file")
    if "\\ud" in text.lower():
        json.dumps(header, ensure_ascii=False).encode()  # half of a surrogate pair raises: no text could be printed
    return header


def _header_number(text: str) -> float:
    """Return a number of the header; NaN and infinity, which could not be written again, are refused."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"its header holds {text[:20]}, which no twoway file does")
    return number


def _header_integer(text: str) -> int:
    """Return a whole number of the header, if a float could hold it too."""
    _header_number(text)
    return int(text)


def _read_array(content: bytes) -> NDArray[Any]:
    """Return the array in the bytes of an ``.npy`` file as `write` makes it, for reading only.

    numpy's own reader evaluates the header as Python, with more types, warnings and recursion than is good for a
    file from elsewhere.
    """
    match = _ARRAY.match(content)
    if match is None:
        raise ValueError("an array has an invalid header")
    dtype, shape = np.dtype(match[1].decode()), tuple(int(size) for size in match[2].split(b",") if size.strip())
    if math.prod(shape) * dtype.itemsize != len(content) - match.end():
        raise ValueError("an array has not the size that its header claims")
    return np.frombuffer(content, dtype, offset=match.end()).reshape(shape)


# The edges of bins in files of version 1, which were written into the labels only

_NUMBER = r"([+-]?(?:inf|\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_BELOW = re.compile(rf"(?:below |< ){_NUMBER}")
_BETWEEN = re.compile(rf"{_NUMBER} to below {_NUMBER}")
_IN_BRACKETS = re.compile(rf"([\[(]){_NUMBER}, {_NUMBER}([\])])")
_ABOVE = re.compile(rf"(?:{_NUMBER} or more|>= {_NUMBER})")


def _add_version_1_edges(header: dict[str, Any]) -> None:
    """Add the edges of each variable whose labels are bins to a header of version 1."""
    schema = header.get("schema")
    for variable in schema if isinstance(schema, list) else ():
        labels = variable.get("categories") if isinstance(variable, dict) else None
        edges = version_1_edges(labels) if isinstance(labels, list) else None
        if edges is not None:
            variable["edges"] = edges


def version_1_edges(labels: Sequence[object]) -> list[float] | None:
    """Return the numbers that separate bins, by their labels; None where labels are something else.

    Bins that hold their upper end, as pandas writes them, begin at the next number that a float can hold.

    Examples
    --------
    >>> (
    ...     version_1_edges(["below 18", "18 to below 40", "40 or more"]),
    ...     version_1_edges(["< 1.5", ">= 1.5"]),
    ...     version_1_edges(["18-39", "40+"]),
    ... )
    ([18.0, 40.0], [1.5], None)
    """
    ends = [_version_1_ends(label) if isinstance(label, str) else None for label in labels]
    known = [pair for pair in ends if pair is not None]
    if len(known) < max(len(ends), 2) or any(low >= high for low, high in known):
        return None
    is_gapless = all(before[1] == after[0] for before, after in pairwise(known))
    return [low for low, _ in known[1:]] if is_gapless else None


def _version_1_ends(label: str) -> tuple[float, float] | None:
    """Return the first number of a bin, and the first one above it."""
    if match := _BELOW.fullmatch(label):
        return -math.inf, float(match[1])
    if match := _BETWEEN.fullmatch(label):
        return float(match[1]), float(match[2])
    if match := _ABOVE.fullmatch(label):
        return float(match[1] or match[2]), math.inf
    if match := _IN_BRACKETS.fullmatch(label):
        low, high = float(match[2]), float(match[3])
        return _next_float(low) if match[1] == "(" else low, _next_float(high) if match[4] == "]" else high
    return None


def _next_float(number: float) -> float:
    return math.nextafter(number, math.inf)
