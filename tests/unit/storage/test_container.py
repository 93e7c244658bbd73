"""Model files: reproducible bytes, atomic writes, and only valid files are read."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from reference.joint import write_out
from strategies import examples, pmfs

from twoway.errors import DataError, FileFormatError, MissingFileError, TwowayError
from twoway.model.pmf import JointPMF
from twoway.report import Report, Start, StopReason, TableMisfit
from twoway.schema import Schema, Variable
from twoway.storage import atomic_files, container

SCHEMA = Schema((Variable("age", ("young", "old")), Variable("size", (1, 2.5), (0, 1)), Variable("ok", (True, False))))
REPORT = Report(
    solver="em",
    rank=2,
    seed=3,
    smoothing=0.5,
    weight_smoothing=1.0,
    objective_name="log-likelihood",
    starts=(Start("spa+em", (-3.5, -2.25), StopReason.MAX_ITER),),
    best=0,
    misfits=(TableMisfit(("age", "ok"), 10.0, 0.1, 0.02),),
    candidates=({"rank": 2, "held_out": -1.5},),
    warnings=("a constant column",),
    seconds=1.5,
)
PMF = JointPMF([0.75, 0.25], [[[1 / 3, 0.5], [2 / 3, 0.5]]] * 3, SCHEMA, report=REPORT)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.twoway"
    PMF.save(path)
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, header=None, **arrays):
    """Write the members of a file anew, some of them changed, as anybody with zip and numpy could."""
    contents = members(path)
    if header is not None:
        contents["header.json"] = json.dumps({**json.loads(contents["header.json"]), **header}).encode()
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
        contents[f"{name}.npy"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


@given(pmfs())
@examples(30)
def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path_factory, pmf):
    folder = tmp_path_factory.mktemp("models")
    pmf.save(folder / "one")
    loaded = JointPMF.load(folder / "one")
    loaded.save(folder / "two")
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()
    assert loaded.schema == pmf.schema
    assert [[type(label) for label in v.categories] for v in loaded.schema] == [
        [type(label) for label in v.categories] for v in pmf.schema
    ]
    np.testing.assert_array_equal(write_out(loaded), write_out(pmf))


def test_report_and_schema_come_back(saved):
    loaded = JointPMF.load(saved)
    assert loaded.schema == SCHEMA
    assert loaded.report == REPORT
    assert loaded.report.stop_reason is StopReason.MAX_ITER
    assert loaded.report.seconds is None
    assert not loaded.stacked.flags.writeable
    PMF.with_report(None).save(saved)
    assert JointPMF.load(saved).report is None


def test_any_zip_and_numpy_can_read_it(saved):
    contents = members(saved)
    assert sorted(contents) == ["header.json", "stacked.npy", "weights.npy"]
    assert json.loads(contents["header.json"])["schema"][0]["categories"] == ["young", "old"]
    np.testing.assert_array_equal(np.load(io.BytesIO(contents["weights.npy"]), allow_pickle=False), PMF.weights)


def test_truncation_at_any_length_is_found(saved):
    whole = saved.read_bytes()
    for length in {*range(0, len(whole), 7), len(whole) - 1}:
        saved.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=r"model\.twoway"):
            JointPMF.load(saved)


def test_a_damaged_byte_of_an_array_is_found(saved):
    whole = bytearray(saved.read_bytes())
    at = whole.find(PMF.weights.tobytes())
    assert at > 0
    whole[at] ^= 1
    saved.write_bytes(whole)
    with pytest.raises(FileFormatError, match="damaged"):
        JointPMF.load(saved)


def test_no_file_no_folder(tmp_path, saved):
    with pytest.raises(MissingFileError, match=r"no file .*nothing\.twoway"):
        JointPMF.load(tmp_path / "nothing.twoway")
    with pytest.raises(FileNotFoundError):
        JointPMF.load(tmp_path / "nothing.twoway")
    with pytest.raises(FileFormatError, match="is a folder"):
        JointPMF.load(tmp_path)
    with pytest.raises(DataError, match=r"no folder .*absent"):
        PMF.save(tmp_path / "absent" / "model.twoway")


@pytest.mark.parametrize("content", [b"", b"PK", b"age,vote\n1,2\n", pickle.dumps([1]), b"\x00" * 1000])
def test_foreign_files(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="not a twoway file"):
        JointPMF.load(path)


def test_foreign_zips(tmp_path):
    path = tmp_path / "foreign.zip"
    for name, content in {"a.txt": b"hello", "header.json": b"{}"}.items():
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)
        with pytest.raises(FileFormatError, match="not a twoway file"):
            JointPMF.load(path)
    for content in (b"[1]", b"not json", b"\xff\xfe", b"[" * 100_000):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", content)
        with pytest.raises(FileFormatError, match="not a twoway file"):
            JointPMF.load(path)


def test_newer_versions_and_other_kinds(saved):
    rewrite(saved, header={"version": container.FORMAT_VERSION + 1})
    with pytest.raises(FileFormatError, match=r"format version 3; .* versions up to 2: install a newer one"):
        JointPMF.load(saved)
    rewrite(saved, header={"version": container.FORMAT_VERSION, "kind": "tables"})
    with pytest.raises(FileFormatError, match="holds 'tables', not 'model'"):
        JointPMF.load(saved)
    assert container.read_container(saved)[0]["kind"] == "tables"


def test_compressed_members_are_refused(saved):
    contents = members(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(FileFormatError, match="that no twoway file has"):
        JointPMF.load(saved)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickled_objects_are_refused_and_not_executed(saved, tmp_path):
    sprung = tmp_path / "sprung"
    rewrite(saved, weights=np.array([Trap(sprung)], dtype=object))
    with pytest.raises(FileFormatError, match="not a twoway file, or is damaged"):
        JointPMF.load(saved)
    assert not sprung.exists()


UNSOUND = {
    "a negative weight": ({}, {"weights": [1.5, -0.5]}, "component 1 has -0.5"),
    "weights off one": ({}, {"weights": [0.5, 0.4]}, "they sum to 0.9"),
    "NaN": ({}, {"stacked": np.full((6, 2), np.nan)}, "'age' .*'young' in component 0 has nan"),
    "a column off one": ({}, {"stacked": np.full((6, 2), 0.25)}, "'age' .*component 0 sums to 0.5"),
    "too few rows": ({}, {"stacked": np.full((4, 2), 0.5)}, r"shapes \(2,\) and \(4, 2\)"),
    "too few components": ({}, {"weights": [1.0]}, r"shapes \(1,\) and \(6, 2\)"),
    "no component": ({}, {"weights": np.empty(0), "stacked": np.empty((6, 0))}, r"shapes \(0,\)"),
    "a scalar": ({}, {"weights": np.float64(1)}, r"shapes \(\)"),
    "another type": ({}, {"weights": np.array([1, 0])}, "of int64 and float64"),
    "no schema": ({"schema": None}, {}, ""),
    "an empty schema": ({"schema": []}, {}, "at least one variable"),
    "a schema of numbers": ({"schema": [1, 2]}, {}, ""),
    "a schema with a name missing": ({"schema": [{"categories": [1], "values": None}]}, {}, "name"),
    "a category twice": ({"schema": [{"name": "a", "categories": [1, 1.0], "values": None}]}, {}, "duplicate"),
    "a report of text": ({"report": "good"}, {}, ""),
    "a report without a solver": ({"report": {"starts": []}}, {}, ""),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_unsound_models_are_refused(saved, case):
    header, arrays, message = UNSOUND[case]
    rewrite(saved, header=header, **arrays)
    with pytest.raises(FileFormatError, match=f"not a valid model file.*{message}"):
        JointPMF.load(saved)


@pytest.mark.parametrize("member", ["weights.npy", "stacked.npy", "header.json"])
def test_a_member_missing(saved, member):
    contents = members(saved)
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in contents.items():
            if name != member:
                archive.writestr(name, content)
    with pytest.raises(FileFormatError, match=r"model\.twoway"):
        JointPMF.load(saved)


@pytest.mark.parametrize("failing", ["os.replace", "os.fsync", "zipfile.ZipFile.writestr"])
def test_a_failing_write_leaves_the_old_file(saved, monkeypatch, failing):
    before = saved.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(failing, fail)
    with pytest.raises(OSError, match="disk full"):
        PMF.given({"age": "old"}).save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_written_file_is_as_readable_as_others(saved):
    (saved.parent / "other").touch()
    assert saved.stat().st_mode == (saved.parent / "other").stat().st_mode


def test_every_error_is_the_packages_own(saved):
    with pytest.raises(TwowayError):
        JointPMF.load(saved.parent / "x")
    (saved.parent / "x").write_bytes(b"x")
    with pytest.raises(ValueError, match="not a twoway file"):
        JointPMF.load(saved.parent / "x")


def test_the_kind_of_a_file(tmp_path):
    container.write_container(tmp_path / "x", "tables", {}, {})
    assert container.container_kind(tmp_path / "x") == "tables"
    (tmp_path / "y").write_text("a,b\n")
    assert container.container_kind(tmp_path / "y") is None
    assert container.container_kind(tmp_path / "nix") is None
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("header.json", "[1]")
    assert container.container_kind(tmp_path / "z") is None


def test_errors_of_the_system_name_the_file_that_was_meant(tmp_path):
    def write_to_a_full_disk():
        with atomic_files.atomic_file(tmp_path / "x"):
            raise OSError(28, "No space left on device", "/some/scratch")

    with pytest.raises(OSError, match="No space left") as caught:
        write_to_a_full_disk()
    assert caught.value.filename == str(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    """A device such as /dev/null must not be replaced by a file, least of all for root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with atomic_files.atomic_file(pipe) as stream:
            stream.write(b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]
