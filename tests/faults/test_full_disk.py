"""A full disk: for a file, for standard output, or for compiled kernels."""

import json
import os
import subprocess
import sys

import pytest

from twoway.paper import results

pytestmark = pytest.mark.slow  # starts a process for each

LINE = {"a": "x" * 100}


def fill(disk, leave):
    """Fill a disk up to so many bytes."""
    with open(disk / "filler", "wb", buffering=0) as stream:
        while True:
            try:
                if not stream.write(b"0" * 4096):
                    break
            except OSError:
                break
        if leave:
            stream.truncate(stream.tell() // 4096 * 4096 - leave)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("x.twoway", ["fit", "survey.csv", "--rank", "2", "--solver", "em"]),
        ("x.tables", ["count", "survey.csv"]),
        ("x.csv", ["sample", "m.twoway", "-n", "9000"]),
        ("x.html", ["explore", "m.twoway"]),
    ],
)
def test_full_disk_keeps_the_old_file_and_raises(twoway, small_disk, name, arguments):
    target = small_disk / name
    target.write_bytes(b"what was there before")
    fill(small_disk, 0)
    done = twoway(*arguments, "-o", target, "--force")
    assert done.returncode == 4
    assert done.stderr.decode() == f"twoway: {target}: No space left on device\n"
    assert target.read_bytes() == b"what was there before"
    assert sorted(path.name for path in small_disk.iterdir()) == ["filler", name]


def test_a_limit_on_the_size_of_files_is_a_full_disk(folder):
    """What goes wrong in the middle of a write, also where nobody may mount a small disk."""
    before = (folder / "m.twoway").read_bytes()
    program = (
        "import resource, twoway as tw; pmf = tw.load('m.twoway').given({'vote': 'yes'}); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY)); pmf.save('m.twoway')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert "OSError: [Errno 27] File too large: 'm.twoway'" in done.stderr
    assert (folder / "m.twoway").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["c.tables", "m.twoway", "survey.csv"]


def test_a_result_that_does_not_fit_is_not_half_in_the_file(small_disk):
    """Results of `reproduce` are lines added to a file; half of one would spoil the next."""
    path = small_disk / "results.jsonl"
    results.append_result(path, LINE)
    fill(small_disk, 0)
    written = 1
    with pytest.raises(OSError, match="No space left on device") as caught:  # noqa: PT012  # which of them is the point
        for _ in range(100):
            results.append_result(path, LINE)
            written += 1
    assert caught.value.filename == str(path)
    (small_disk / "filler").unlink()
    results.remove_torn_result(path)
    results.append_result(path, LINE)
    assert [json.loads(text) for text in path.read_text().splitlines()] == [LINE] * (written + 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "arguments", [["ask", "m.twoway", "P(vote)"], ["sample", "m.twoway", "-n", "99999"], ["info", "m.twoway"]]
)
def test_full_standard_output(twoway, arguments):
    with open("/dev/full", "wb") as full:
        done = twoway(*arguments, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 4
    assert done.stderr == b"twoway: No space left on device\n"


def test_compiled_kernels_that_cannot_be_kept(twoway, small_disk, folder):
    """It costs time, nothing else."""
    fill(small_disk, 8192)
    done = twoway("count", "survey.csv", "-o", "x.tables", env={"NUMBA_CACHE_DIR": str(small_disk / "cache")})
    assert (done.returncode, done.stderr) == (0, b"")
    assert (folder / "x.tables").read_bytes() == (folder / "c.tables").read_bytes()
    assert list((small_disk / "cache").rglob("*.nbi")), "the cache was not even tried"


def test_a_damaged_kernel_cache_is_rebuilt(twoway, folder, tmp_path):
    """What a crash of the machine leaves: files that have a name and no content."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    count = ["count", "survey.csv", "-o", "x.tables", "--force"]
    assert twoway(*count, env=environment).returncode == 0
    kept = [*(tmp_path / "cache").rglob("*.nb?")]
    assert kept
    for number, path in enumerate(kept):
        os.truncate(path, 0 if number % 2 else path.stat().st_size // 2)
    done = twoway(*count, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (folder / "x.tables").read_bytes() == (folder / "c.tables").read_bytes()
    assert all(path.stat().st_size for path in (tmp_path / "cache").rglob("*.nbi"))
