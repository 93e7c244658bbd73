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
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from twoway import __version__
from twoway.errors import DataError, FileFormatError, MissingFileError, TwowayError

FORMAT_VERSION = 1
MAX_BYTES = 2**32
"""No member of a file may be larger: 4 GiB is far above any model and far below a hostile claim."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
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
    )
    with whole_or_not_at_all(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json", _EPOCH), text.encode())
        for name in sorted(arrays):
            buffer = io.BytesIO()
            array = np.ascontiguousarray(arrays[name])
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())


@contextmanager
def whole_or_not_at_all(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a stream whose content becomes a file once all of it was written; before that, nothing changes.

    What is replaced keeps its permissions, and a link to a file stays a link. A device or a pipe is written to as it
    is. An error of the operating system names the file meant.
    """
    meant = Path(path)
    if meant.is_dir():
        raise DataError(f"cannot write {str(meant)!r}: it is a folder; name a file")
    if not meant.parent.is_dir():
        raise DataError(f"cannot write {str(meant)!r}: there is no folder {str(meant.parent)!r}")
    try:
        if meant.exists() and not meant.is_file():
            whole = io.BytesIO()  # not every device tells where in it one is
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
            with contextlib.suppress(OSError):  # such as that the folder is gone: what went wrong first is told
                scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno is None or isinstance(error, TwowayError):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(meant)) from error


@contextmanager
def alone_in_folder(path: str | os.PathLike[str]) -> Iterator[None]:
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


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return what a twoway file holds, "model" or "tables"; None for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("header.json"))
        return str(header["kind"]) if header.get("format") == "twoway" else None
    except (zipfile.BadZipFile, KeyError, ValueError, AttributeError, OSError):
        return None


def read(path: str | os.PathLike[str], kind: str | None = None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file; nothing in it is executed.

    A file that is not there, truncated, foreign, of another kind or of a newer version raises
    `FileFormatError` (`MissingFileError` for the first).
    """
    if not isinstance(path, str | os.PathLike):
        raise DataError(f"a file is named by text or a path, not {path!r}")
    source = Path(path)
    shown = repr(str(source))
    if source.is_dir():
        raise FileFormatError(f"{shown} is a folder, not a twoway file")
    try:
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                if member.file_size > MAX_BYTES or member.compress_type != zipfile.ZIP_STORED:
                    raise FileFormatError(f"{shown} holds a member {member.filename!r} that no twoway file has")
            header = json.loads(archive.read("header.json"))
            if not isinstance(header, dict) or header.get("format") != "twoway":
                raise FileFormatError(f"{shown} is not a twoway file")
            version = header.get("version")
            if not isinstance(version, int) or version > FORMAT_VERSION:
                raise FileFormatError(
                    f"{shown} has format version {version!r}; this twoway reads versions up to {FORMAT_VERSION}: "
                    "install a newer one"
                )
            if kind is not None and header.get("kind") != kind:
                raise FileFormatError(f"{shown} holds {header.get('kind')!r}, not {kind!r}")
            arrays = {
                name.removesuffix(".npy"): _read_array(archive.read(name))
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except FileFormatError:
        raise
    except FileNotFoundError:
        raise MissingFileError(f"there is no file {shown}") from None
    except PermissionError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, OSError) as error:
        raise FileFormatError(f"{shown} is not a twoway file, or is damaged: {error}") from error
    return header, arrays


def _read_array(content: bytes) -> NDArray[Any]:
    """Return the array in the bytes of an ``.npy`` file, whose size must be what its header says."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array of another format version")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array that is not of the size it claims")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
