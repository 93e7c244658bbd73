"""Hostile model and tables files: refused with little memory, and nothing in them runs."""

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hidden_trees import random_tree
from hypothesis import given
from hypothesis import strategies as st

from twoway.errors import FileFormatError
from twoway.model.counts import Counts
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.report import Report, Start, StopReason, TableMisfit
from twoway.schema import Schema, Variable
from twoway.storage import container
from twoway.tables.tables import Tables
from twoway.uncertainty.bootstrap import Bootstrap

SCHEMA = Schema((Variable("a", ("x", "y")), Variable("b", (1, 2, 3)), Variable("c", (True, False))))
REPORT = Report(
    "em",
    1,
    0,
    0.0,
    0.0,
    "likelihood",
    (Start("em", (2.5, 1.5), StopReason.CONVERGED),),
    0,
    misfits=(TableMisfit(("a", "b"), 10.0, 0.1, 0.02),),
    candidates=({"rank": 1},),
    warnings=("a constant column",),
)
PMF = JointPMF([1.0], [np.full((len(variable), 1), 1 / len(variable)) for variable in SCHEMA], SCHEMA, report=REPORT)
TABLES = Tables(SCHEMA, [[0, 1], [1, 2]], np.arange(12.0), notes=("a note",))
OWN = {"model": (PMF, JointPMF), "tables": (TABLES, Tables)}

both = pytest.mark.parametrize("kind", OWN)


def saved(kind, folder):
    path = folder / f"{kind}.twoway"
    OWN[kind][0].save(path)
    return path


def load(kind, path):
    return OWN[kind][1].load(path)


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, contents, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def changed(path, changes):
    """Write a file's header anew; a change is the path into it, and what stands there then."""
    contents = members(path)
    header = json.loads(contents["header.json"])
    for *place, last, value in changes:
        inside = header
        for key in place:
            inside = inside[key]
        inside[last] = value
    contents["header.json"] = json.dumps(header).encode()
    write(path, contents)


def npy(descr, shape, content=b"", fortran=False):
    """Return the bytes of an array file whose header says whatever it likes."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def assert_refused(kind, path, match="twoway"):
    """Check that a file is refused, within a few megabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=match):
            load(kind, path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@both
def test_the_unchanged_files_are_valid(kind, tmp_path):
    path = saved(kind, tmp_path)
    write(path, members(path))
    assert load(kind, path).schema == SCHEMA
    changed(path, [])
    assert load(kind, path).schema == SCHEMA
    contents = members(path)
    for name, content in contents.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            assert npy(array.dtype.str, array.shape, array.tobytes())[-array.nbytes :] == content[-array.nbytes :]
            contents[name] = npy(array.dtype.str, array.shape, array.tobytes())
    write(path, contents)
    assert load(kind, path).schema == SCHEMA


ARRAYS = {
    "a trillion cells": npy("<f8", (10**12,)),
    "a trillion cells of no size": npy("|V0", (10**12,)),
    "a trillion empty texts": npy("<U0", (10**12,)),
    "a number of cells beyond all": npy("<f8", (2**63, 2**63, 0)),
    "a negative shape": npy("<f8", (-1,), b"\0" * 8),
    "two negative shapes": npy("<f8", (-1, -2), b"\0" * 16),
    "a shape of truth values": npy("<f8", (True,), b"\0" * 8),
    "a shape of text": npy("<f8", "'9'"),
    "a shape that is called": npy("<f8", "(print(1),)"),
    "fields": npy([("a", "<f8")], (1,), b"\0" * 8),
    "fields within fields": npy([("a", [("b", "<f8", (10**6, 10**6))])], (0,)),
    "objects": npy("|O", (1,), b"\0" * 8),
    "complex numbers": npy("<c16", (1,), b"\0" * 16),
    "dates": npy("<M8[s]", (1,), b"\0" * 8),
    "a float of one byte": npy("<f1", (1,), b"\0"),
    "a type that is none": npy("whatever", (1,)),
    "no header": b"\x93NUMPY\x01\x00",
    "a header cut short": npy("<f8", (1,))[:40],
    "a header of another version": npy("<f8", (1,), b"\0" * 8).replace(b"\x01\x00", b"\x02\x00", 1),
    "nested beyond reading": npy("<f8", "(" * 5000),
    "more sizes than arrays have": npy("<f8", tuple([1] * 70), b"\0" * 8),
    "a Fortran order": npy("<f8", (1,), b"\0" * 8, fortran=True),
    "numbers of Python 2": npy("<f8", "(1L,)", b"\0" * 8),
    "not an array": b"weights",
    "nothing": b"",
}


@both
@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_with_wrong_headers(kind, case, tmp_path):
    path = saved(kind, tmp_path)
    write(path, {**members(path), "weights.npy": ARRAYS[case]})
    assert_refused(kind, path)


@both
@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0])
def test_weights_that_are_none(kind, number, tmp_path):
    path = saved(kind, tmp_path)
    contents = members(path)
    weights = np.load(io.BytesIO(contents["weights.npy"])).copy()
    weights[0] = number
    write(path, {**contents, "weights.npy": npy("<f8", weights.shape, weights.tobytes())})
    assert_refused(kind, path, "weight")


@both
def test_a_zip_bomb(kind, tmp_path):
    path = saved(kind, tmp_path)
    bomb = b" " * 50_000_000
    for name in ("weights.npy", "header.json", "more"):
        write(path, {**members(path), name: bomb}, compression=zipfile.ZIP_DEFLATED)
        assert path.stat().st_size < 1_000_000
        assert_refused(kind, path, "no twoway file has")
        tracemalloc.start()
        assert container.container_kind(path) is None
        assert tracemalloc.get_traced_memory()[1] < 20e6
        tracemalloc.stop()
        saved(kind, tmp_path)


@both
def test_members_that_share_their_bytes(kind, tmp_path):
    """Many entries of the directory that point at the same large member."""
    path = tmp_path / "file"
    large = bytes(200_000)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members(saved(kind, tmp_path)).items():
            archive.writestr(name, content)
        archive.writestr("large.npy", large)
        entry = archive.getinfo("large.npy")
        for number in range(90):
            again = zipfile.ZipInfo(f"large{number}.npy")
            for field in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(again, field, getattr(entry, field))
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    assert_refused(kind, path, "claim more bytes than the file has")


@both
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice_and_too_many(kind, tmp_path):
    path = saved(kind, tmp_path)
    contents = members(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("weights.npy", contents["weights.npy"])
    assert_refused(kind, path, r"'weights\.npy' that no twoway file has")
    write(path, {**contents, **{f"{number}.npy": contents["weights.npy"] for number in range(200)}})
    assert_refused(kind, path, "members")


@both
def test_a_large_directory_or_header_is_refused_before_it_is_read(kind, tmp_path):
    path = saved(kind, tmp_path)
    whole = path.read_bytes()
    contents = members(path)
    # Three million members, as they stand in the directory, behind those of a file that is sound.
    entry = struct.pack("<4s4x4H3I5H2I", b"PK\1\2", 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry * 400_000
    offset = len(whole)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(directory), offset, 0)
    path.write_bytes(whole + directory + end)
    assert_refused(kind, path, "directory")
    # The same, told in the record of large archives, and with a small number in the other.
    large = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 400_000, 400_000, len(directory), offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, offset + len(directory), 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 3, 3, 100, offset, 0)
    path.write_bytes(whole + directory + large + locator + end)
    assert_refused(kind, path, "directory")
    path.write_bytes(whole + directory + large + b"beyond" + locator + end)
    assert_refused(kind, path, "does not end as")
    # A comment, behind which another end could hide.
    path.write_bytes(whole[:-2] + struct.pack("<H", 22) + whole[-22:])
    assert_refused(kind, path, "twoway")
    write(path, {**contents, "header.json": b" " * (2**25 + 1)})
    assert_refused(kind, path, "its header has 33,554,433 bytes")


@both
def test_half_of_a_surrogate_pair_is_refused(kind, tmp_path):
    path = saved(kind, tmp_path)
    contents = members(path)
    for half in (b'"\\ud800"', b'"\\uDC00x"', b'"\xed\xa0\x80"'):
        header = contents["header.json"].replace(b'"notes": []', b'"notes": [' + half + b"]", 1)
        header = header.replace(b'"categories": ["x"', b'"categories": [' + half, 1)
        assert header != contents["header.json"]
        write(path, {**contents, "header.json": header})
        assert_refused(kind, path)
    pair = contents["header.json"].replace(b'"name": "', b'"name": "\\ud83e\\udd86', 1)
    write(path, {**contents, "header.json": pair})
    assert load(kind, path).schema.names[0].startswith("🦆")


def variable(**entries):
    return {"name": "a", "categories": ["x", "y"], "values": None} | entries


SCHEMAS = {
    "a name twice": [variable(), variable()],
    "a category twice": [variable(categories=["x", "x"])],
    "a name of a number": [variable(name=3)],
    "no name": [variable(name=None)],
    "no categories": [variable(categories=None)],
    "an empty list of categories": [variable(categories=[])],
    "categories of lists": [variable(categories=[["x"], ["y"]])],
    "values of text": [variable(values=["one", "two"])],
    "too few values": [variable(values=[1.0])],
    "a dictionary": {"a": variable()},
    "a text": "ab",
    "a number": 7,
    "lists": [["a"]],
    "nothing": [],
}


@both
@pytest.mark.parametrize("case", SCHEMAS)
def test_invalid_schemas_are_refused(kind, case, tmp_path):
    path = saved(kind, tmp_path)
    changed(path, [("schema", SCHEMAS[case])])
    assert_refused(kind, path)


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400, "9" * 5000]


@both
@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:9])
def test_numbers_that_cannot_be_written_again(kind, number, tmp_path):
    path = saved(kind, tmp_path)
    contents = members(path)
    contents["header.json"] = contents["header.json"].replace(b'"kind"', f'"more": {number}, "kind"'.encode())
    write(path, contents)
    assert_refused(kind, path)
    assert container.container_kind(path) is None


@both
@pytest.mark.parametrize("header", [b"[" * 100_000, b'{"a":' * 50_000, b"\xff", b"", b"[]", b"null", b'{"format": 1}'])
def test_invalid_headers_are_refused(kind, header, tmp_path):
    path = saved(kind, tmp_path)
    write(path, {**members(path), "header.json": header})
    assert_refused(kind, path)
    assert container.container_kind(path) is None


REPORTS = {
    "no start": [("starts", [])],
    "a start of no pass": [("starts", 0, "objectives", [])],
    "a start that was not": [("best", 7)],
    "a negative start": [("best", -1)],
    "an objective of text": [("starts", 0, "objectives", ["low"])],
    "a solver of a number": [("starts", 0, "solver", 5)],
    "another end": [("starts", 0, "stop_reason", "exploded")],
    "a rank of text": [("rank", "two")],
    "a likelihood of a list": [("log_likelihood", [1])],
    "records of text": [("n_records", "many")],
    "warnings of numbers": [("warnings", [1])],
    "candidates of text": [("candidates", ["a"])],
    "a misfit of text": [("misfits", 0, "total_variation", "low")],
    "a misfit of no name": [("misfits", 0, "variables", [None])],
    "an entry of its own": [("surprise", 1)],
}


@pytest.mark.parametrize("case", REPORTS)
def test_reports_that_no_fit_writes(case, tmp_path):
    path = saved("model", tmp_path)
    changed(path, [("report", *change) for change in REPORTS[case]])
    assert_refused("model", path, "not a valid model file")


def test_positions_of_variables_do_not_wrap_around(tmp_path):
    """2**32 is no position, though 32 bits of it are 0."""
    path = saved("tables", tmp_path)
    sets = np.array([[2**32, 1], [1, 2]], dtype=np.int64)
    write(path, {**members(path), "sets.npy": npy("<i8", sets.shape, sets.tobytes())})
    assert_refused("tables", path, "from 0 to 2")


def test_tables_of_more_cells_than_there_are_numbers():
    """The product of their sizes does not wrap around to one that fits."""
    schema = Schema(tuple(Variable(name, (0, 1)) for name in "abc"))
    object.__setattr__(schema, "sizes", (2**22,) * 3)  # so many categories would take long to write down
    with pytest.raises(ValueError, match="more cells than can be counted"):
        Tables(schema, [[0, 1, 2]], np.zeros(2**66 % 2**64))
    with pytest.raises(ValueError, match="more cells than can be counted"):
        Counts(schema, np.array([[0, 1, 2]]), np.zeros(2**66 % 2**64), np.zeros(0))
    object.__setattr__(schema, "sizes", (2**31,) * 3)  # each table of 2**62 cells fits, but not all of them
    with pytest.raises(ValueError, match="more cells than can be counted"):
        Counts(schema, np.array([[0, 1]] * 4), np.zeros(2**64 % 2**64), np.zeros(0))


def test_invalid_replicates_are_refused(tmp_path):
    path = tmp_path / "boot.twoway"
    Bootstrap(PMF, (PMF, PMF), PMF).save(path)
    assert len(Bootstrap.load(path).replicates) == 2
    contents = members(path)
    for weights in (np.zeros((0, 1)), np.ones((1, 1)), np.ones(3), np.float64(1), np.full((3, 1), np.nan)):
        write(path, {**contents, "replicate_weights.npy": npy("<f8", weights.shape, weights.tobytes())})
        with pytest.raises(FileFormatError, match=r"the replicates in .* are invalid"):
            Bootstrap.load(path)


# Two trees of three hidden variables each: of 2, 3 and 2 states, and of 2 states each.
TREES = Trees(
    np.array([0.6, 0.4]),
    tuple(random_tree((-1, 0, 1), n_states=n, sizes=SCHEMA.sizes, homes=(0, 1, 2)) for n in ((2, 3, 2), (2, 2, 2))),
)
N_NUMBERS = (2 + 6 + 6 + 4 + 9 + 4) + (2 + 4 + 4 + 4 + 6 + 4)
TREE_ARRAYS = {
    "shares of no tree": ("shares", np.zeros(0)),
    "shares of more trees": ("shares", np.full(3, 1 / 3)),
    "shares in a column": ("shares", np.array([[0.6], [0.4]])),
    "one share": ("shares", np.float64(1.0)),
    "shares beyond one": ("shares", np.array([0.6, 0.6])),
    "a negative share": ("shares", np.array([1.5, -0.5])),
    "shares that are no numbers": ("shares", np.full(2, np.nan)),
    "shares of integers": ("shares", np.array([1, 0])),
    "a tree of nothing": ("sizes", np.array([6, 0])),
    "fewer sizes": ("sizes", np.array([6])),
    "sizes beyond the arrays": ("sizes", np.array([3, 4])),
    "negative sizes": ("sizes", np.array([7, -1])),
    "sizes whose sum wraps around": ("sizes", np.array([2**62, 2**62, 2**62, 2**62 + 6])),
    "sizes of floats": ("sizes", np.array([3.0, 3.0])),
    "parents of floats": ("parents", np.array([-1.0, 0, 1, -1, 0, 1])),
    "parents that are no numbers": ("parents", np.array([-1, np.nan, 1, -1, 0, 1])),
    "parents of truth values": ("parents", np.array([True, False, True, True, False, True])),
    "a cycle": ("parents", np.array([-1, 2, 1, -1, 0, 1])),
    "a parent of itself": ("parents", np.array([-1, 1, 1, -1, 0, 1])),
    "two roots": ("parents", np.array([-1, -1, 1, -1, 0, 1])),
    "no root": ("parents", np.array([0, 0, 1, -1, 0, 1])),
    "parents in another tree": ("parents", np.array([-1, 0, 1, 0, 1, 2])),
    "too few parents": ("parents", np.array([-1, 0, 1, -1, 0])),
    "parents in a table": ("parents", np.array([[-1, 0, 1], [-1, 0, 1]])),
    "states of nothing": ("states", np.array([2, 0, 2, 2, 2, 2])),
    "negative states": ("states", np.array([2, -3, 2, 2, 2, 2])),
    "other states": ("states", np.array([2, 3, 2, 2, 2, 3])),
    "states beyond memory": ("states", np.array([2**62, 3, 2, 2, 2, 2])),
    "states of floats": ("states", np.array([2, 3.5, 2, 2, 2, 2])),
    "homes beyond the tree": ("homes", np.array([[0, 1, 3], [0, 1, 2]])),
    "negative homes": ("homes", np.array([[0, -1, 2], [0, 1, 2]])),
    "homes of floats": ("homes", np.array([[0.0, np.nan, 2], [0, 1, 2]])),
    "homes of fewer variables": ("homes", np.array([[0, 1], [0, 1]])),
    "homes of one tree": ("homes", np.array([0, 1, 2])),
    "no numbers": ("numbers", np.zeros(0)),
    "a number too many": ("numbers", np.full(N_NUMBERS + 1, 0.5)),
    "numbers that are none": ("numbers", np.full(N_NUMBERS, np.nan)),
    "negative numbers": ("numbers", np.full(N_NUMBERS, -0.5)),
    "numbers that do not sum to one": ("numbers", np.full(N_NUMBERS, 0.4)),
    "numbers of 32 bits": ("numbers", np.full(N_NUMBERS, 0.5, dtype=np.float32)),
    "one number": ("numbers", np.float64(1.0)),
}


def with_array(contents, name, array):
    return {**contents, f"{name}.npy": npy(array.dtype.str, array.shape, array.tobytes())}


@pytest.mark.parametrize("case", TREE_ARRAYS)
def test_trees_that_are_none(case, tmp_path):
    path = tmp_path / "tree.twoway"
    JointPMF.from_trees(SCHEMA, TREES).save(path)
    assert JointPMF.load(path).n_hidden == 6
    contents, (name, array) = members(path), TREE_ARRAYS[case]
    assert f"tree_{name}.npy" in contents
    write(path, with_array(contents, f"tree_{name}", array))
    assert_refused("model", path, "not a valid model file")
    write(path, {key: content for key, content in contents.items() if key != f"tree_{name}.npy"})
    assert_refused("model", path, "not a valid model file")


def test_replicates_of_trees_that_are_none(tmp_path):
    path, pmf = tmp_path / "boot.twoway", JointPMF.from_trees(SCHEMA, TREES)
    Bootstrap(pmf, (pmf, pmf), pmf).save(path)
    assert len(Bootstrap.load(path).replicates) == 2
    contents = members(path)
    good = np.load(io.BytesIO(contents["replicate_numbers.npy"]))
    negative, not_summing, not_a_number = good.copy(), good.copy(), good.copy()
    negative[0, :2], not_summing[0, 0], not_a_number[1, 0] = (-0.5, 1.5), 0.9, np.nan
    wrong = [negative, not_summing, not_a_number, good[:0], good[0], good[:, :-1], good.astype(np.float32)]
    for numbers in (*wrong, np.float64(1.0), np.zeros((2, 0)), good.astype(np.int64), np.hstack([good, good])):
        write(path, with_array(contents, "replicate_numbers", numbers))
        with pytest.raises(FileFormatError, match=r"the replicates in .* are invalid"):
            Bootstrap.load(path)


@both
@given(data=st.data())
def test_any_damage_is_found_or_harmless(kind, data, tmp_path_factory):
    """Some bytes changed, left out or put in: the same content as before, or a refusal."""
    path = saved(kind, tmp_path_factory.mktemp("damage"))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path.write_bytes(content)
    container.container_kind(path)
    try:
        found = load(kind, path)
    except FileFormatError:
        return
    assert found.schema == SCHEMA
