"""From the fuzzer's bytes to a file.

Checksums would stop nearly every change of a zip archive's bytes, so most inputs are the parts of an archive: a line
with the members' names, the members themselves behind it, and an archive is made of them. An input that begins with
"PK" is the file itself.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
import zipfile
from pathlib import Path

MARK = b"\n--8<--\n"

_FOLDER = Path(tempfile.mkdtemp(prefix="twoway-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def write_file(data: bytes) -> Path:
    """Return a file made of the fuzzer's bytes."""
    path = _FOLDER / "input"
    if data[:2] == b"PK":
        path.write_bytes(data)
        return path
    names, *contents = data.split(MARK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's own, about a member that is there twice
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in zip(names.decode("latin-1").split(","), contents, strict=False):
                archive.writestr(zipfile.ZipInfo(name or "?"), content)
    return path


def parts_of(path: Path) -> bytes:
    """Return a file as the parts of an archive: what `write_file` makes a file of."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        return MARK.join([",".join(names).encode(), *(archive.read(name) for name in names)])


def again(path: Path) -> Path:
    """Return a name for a file beside another."""
    return path.with_name("again")
