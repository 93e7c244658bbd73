"""Files written whole or not at all, and folders that one process at a time works in."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from twoway.errors import OutputError, TwowayError, check_type

PathName: TypeAlias = str | os.PathLike[str]


def check_file_path(path: object) -> PathName:
    """Return the name of a file, or raise where something else was given."""
    check_type("a file name", path, str | os.PathLike, "text or a path")
    return path  # type: ignore[return-value]


@contextmanager
def atomic_file(path: PathName) -> Iterator[BinaryIO]:
    """Give a stream whose content becomes a file once all of it is written; until then, nothing changes.

    What is replaced keeps its permissions, and a link to a file stays a link. A device or a pipe is written to as it
    is. An error of the operating system names the file meant.
    """
    meant = Path(check_file_path(path))
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


def write_text_file(path: PathName, text: str) -> None:
    """Write text to a file, whole or not at all."""
    with atomic_file(path) as stream:
        stream.write(text.encode())


@contextmanager
def lock_folder(path: PathName) -> Iterator[None]:
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
