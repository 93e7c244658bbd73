"""Unusual folders, locales, homes, networks, pipes and clocks; and concurrent processes."""

import os
import random
import shutil
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.errors import DataError, TwowayError
from twoway.storage import atomic_files

pytestmark = pytest.mark.slow  # starts a process for each

FIT = ["fit", "survey.csv", "--rank", "2", "--solver", "em"]


# Folders and files


def test_a_read_only_folder(twoway, folder, tmp_path, as_nobody):
    for place in (folder, *folder.parents[:3]):
        os.chmod(place, 0o755)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    (closed / "old.twoway").write_bytes(b"what was there before")
    for name, words in (("new.twoway", []), ("old.twoway", ["--force"])):
        done = twoway(*FIT, "-o", closed / name, *words, before=as_nobody)
        assert done.returncode == 4
        assert done.stderr.decode() == f"twoway: {closed / name}: Permission denied\n"
    assert [path.name for path in closed.iterdir()] == ["old.twoway"]
    assert (closed / "old.twoway").read_bytes() == b"what was there before"


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link(folder):
    os.chmod(folder / "m.twoway", 0o600)
    os.symlink("m.twoway", folder / "link.twoway")
    pmf = tw.load(folder / "m.twoway").given({"vote": "yes"})
    pmf.save(folder / "link.twoway")
    assert (folder / "link.twoway").is_symlink()
    assert stat.S_IMODE((folder / "m.twoway").stat().st_mode) == 0o600
    assert tw.load(folder / "m.twoway").prob({"vote": "yes"}) == pytest.approx(1.0)


def test_a_dangling_link_is_filled(tmp_path):
    os.symlink("later.twoway", tmp_path / "link.twoway")
    dirichlet_rows(2, 2, 1).save(tmp_path / "link.twoway")
    assert tw.load(tmp_path / "later.twoway").rank == 1


def test_devices_and_pipes_are_written_to_not_replaced(twoway, folder, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit((tmp_path / "pipe.csv").read_text)
        done = twoway("sample", "m.twoway", "-n", "3", "-o", tmp_path / "pipe.csv")
        assert done.returncode == 0
        assert len(reader.result().splitlines()) == 4
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)
    assert twoway(*FIT, "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    done = subprocess.run(
        [sys.executable, "-c", "import twoway as tw; tw.load('m.twoway').save('/dev/stdout')"],
        cwd=folder,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout == (folder / "m.twoway").read_bytes()


def test_names_as_long_as_the_system_allows(tmp_path):
    name = "größe" * 36 + ".tw"  # 36 * 7 + 3 = 255 bytes
    dirichlet_rows(2, 2, 1).save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_is_gone_while_writing(tmp_path):
    place = tmp_path / "gone"
    place.mkdir()

    def write():
        with atomic_files.atomic_file(place / "x"):
            shutil.rmtree(place)

    with pytest.raises(OSError, match=r"No such file or directory: .*gone/x"):
        write()


# The process's surroundings


def test_no_locale(twoway, folder):
    shutil.copy(folder / "survey.csv", folder / "größe.csv")
    fit = ["fit", "größe.csv", "-o", "größe.twoway", "--rank", "2", "--solver", "em", "--force"]
    plain = {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": None, "PYTHONCOERCECLOCALE": None}
    assert twoway(*fit, env=plain).returncode == 0
    assert (folder / "größe.twoway").read_bytes() == (folder / "m.twoway").read_bytes()
    done = twoway("ask", "größe.twoway", "P(größe = 2)", env=plain)
    assert (done.returncode, done.stderr) == (0, b"")
    # Where even Python's own way out is barred, it is said what to do, and nothing is a bug.
    barred = plain | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = twoway(*fit, env=barred)
    assert done.returncode == 3
    assert b"set PYTHONUTF8=1" in done.stderr
    done = twoway("ask", "größe.twoway", "P(vote | größe = 2)", env=barred)
    assert done.returncode in (0, 3)
    done = twoway("info", "m.twoway", env=barred)
    assert done.returncode == 0
    assert b"gr\\xf6\\xdfe" in done.stdout


def test_no_home_and_nothing_else_in_the_environment(folder, made):
    source = os.path.dirname(os.path.dirname(tw.__file__))
    command = [sys.executable, "-m", "twoway", *FIT, "-o", "x.twoway"]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": source}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (folder / "x.twoway").read_bytes() == (made / "m.twoway").read_bytes()


def test_a_home_that_cannot_be_written(folder, tmp_path, monkeypatch, capsys):
    """The history of questions is the only thing kept there, and is not worth an error."""
    import readline

    from twoway.cli.ask import ask_at_prompt

    (tmp_path / "home").write_text("a file, where a folder should be")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("builtins.input", lambda _: "quit")
    readline.clear_history()
    ask_at_prompt(tw.load(folder / "m.twoway"), print)
    assert capsys.readouterr().err == ""
    assert (tmp_path / "home").is_file()


def test_no_network(monkeypatch, tmp_path):
    """Nothing connects but what fetches a data set, and that says where to get it."""

    def refuse(*_, **__):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setenv("TWOWAY_DATA", str(tmp_path))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with pytest.raises(TwowayError, match=r"could not be downloaded from OpenML.*put it in"):
        tw.datasets.car()
    records = draw_records(dirichlet_rows(3, 2, 2), 100)
    tw.explore(tw.fit(records, rank=2, solver="em"), tmp_path / "x.html")


def test_kernels_that_cannot_be_cached(folder, tmp_path, as_nobody):
    """An installation that belongs to somebody else, and no folder to write to at all."""
    for place in (folder, *folder.parents[:3]):
        os.chmod(place, 0o755)
    source = tmp_path / "installed"
    shutil.copytree(os.path.dirname(tw.__file__), source / "twoway", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "closed").mkdir(mode=0o555)
    environment = {
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path / "closed"),
        "NUMBA_CACHE_DIR": str(tmp_path / "closed" / "cache"),
        "PATH": os.environ["PATH"],
    }
    program = "import twoway as tw; print(tw.count('survey.csv') == tw.Tables.load('c.tables'))"
    command = [*as_nobody, sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert not list(source.rglob("__pycache__"))


@pytest.mark.parametrize("arguments", [["sample", "m.twoway", "-n", "200000"], ["impute", "m.twoway", "many.csv"]])
def test_a_closed_pipe(folder, arguments):
    text = (folder / "survey.csv").read_text()
    (folder / "many.csv").write_text(text + text.partition("\n")[2] * 300)
    source = os.path.dirname(os.path.dirname(tw.__file__))
    command = f"{sys.executable} -m twoway {' '.join(arguments)} | head -n 1; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, check=False)
    assert (done.stdout.decode(), done.stderr, done.returncode) == ("age,vote,größe\n", b"", 141)


def test_streams_that_are_closed(twoway):
    closed = ["bash", "-c", 'exec "$@" >&-', "bash"]
    done = twoway("sample", "m.twoway", before=closed)
    assert (done.returncode, done.stderr) == (4, b"twoway: standard output: it is closed\n")
    assert twoway("ask", "m.twoway", "P(vote)", before=closed).returncode == 0
    done = twoway("ask", "m.twoway", "P(nix)", before=["bash", "-c", 'exec "$@" 2>&-', "bash"])
    assert (done.returncode, done.stdout) == (3, b"")


def test_a_clock_that_jumps(monkeypatch, folder, tmp_path):
    """Back, forward, to before the first zip file: times are shown, and nothing depends on them."""
    jumps = random.Random(0)

    def jump(*_):
        return jumps.choice([-1e12, -1.0, 0.0, 1e-9, 1.7e9, 1e12]) * jumps.random()

    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, jump)
    seen = []
    pmf = tw.fit(folder / "survey.csv", rank=2, solver="em", monitor=seen.append)
    assert np.isfinite(pmf.report.seconds)
    assert seen
    assert str(pmf.report)
    pmf.save(tmp_path / "x.twoway")
    assert (tmp_path / "x.twoway").read_bytes() == (folder / "m.twoway").read_bytes()
    tw.fit(folder / "survey.csv", rank=2, solver="em", monitor=True)


# Several at a time


def test_two_processes_add_to_the_same_counts(twoway, folder):
    """Neither loses what the other added."""
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: twoway("count", "survey.csv", "--add", "c.tables"), range(4)))
    assert [one.returncode for one in done] == [0] * 4, done
    once = tw.count(folder / "survey.csv")
    assert tw.Tables.load(folder / "c.tables") == sum([once] * 5)


def test_many_write_the_same_file(tmp_path):
    """The last one wins, and readers see whole files only."""
    models = [dirichlet_rows(4, 3, rank, seed=rank) for rank in range(1, 9)]
    models[0].save(tmp_path / "x.twoway")
    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(model.save, tmp_path / "x.twoway") for model in models * 10]
        while not all(one.done() for one in writers):
            assert 1 <= tw.load(tmp_path / "x.twoway").rank <= 8
    for one in writers:
        one.result()
    assert [path.name for path in tmp_path.iterdir()] == ["x.twoway"]


def test_file_names_that_cannot_be_decoded(tmp_path):
    with pytest.raises(DataError, match="set PYTHONUTF8=1"):
        tw.fit(str(tmp_path / "gr\udcc3.csv"))
