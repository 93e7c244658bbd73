"""Run one of the fuzzers for some time: ``python fuzz/run.py questions --seconds 60``.

Each input may take 10 seconds and 256 MiB beyond what the program itself takes; nothing may be executed, started or
connected to. What breaks one of these, or a promise of the harness, ends the run, and the input is kept in .fuzz/.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HARNESSES = ("model_file", "tables_file", "questions")
SECONDS_EACH = 10
MEMORY = 256 * 2**20
LONGEST = {"questions": 2**10}
FORBIDDEN = (
    "exec",
    "compile",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
    "socket.bind",
    "pickle.find_class",
    "marshal.loads",
    "ctypes.dlopen",
    "shutil.rmtree",
)

watching = False


def forbid(event: str, arguments: Any) -> None:
    """Raise where an input makes the program do what no file or question may."""
    if watching and event in FORBIDDEN and not _importing():
        raise AssertionError(f"an input led to {event} {arguments!r}"[:500])


def _importing() -> bool:
    """Return whether a module is being imported, which runs its code, and is no doing of an input."""
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None


def limit_memory() -> None:
    """Let the process have a little more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Run a fuzzer as the command line says."""
    import atheris

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", choices=HARNESSES)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    with atheris.instrument_imports(include=["twoway", "zipfile", "json"]):
        check = importlib.import_module(options.harness).check
    seeds = HERE / "corpus" / options.harness
    found = HERE.parent / ".fuzz" / options.harness
    found.mkdir(parents=True, exist_ok=True)
    for seed in sorted(seeds.iterdir()):
        check(seed.read_bytes())  # modules are imported now, when they are used first
    sys.addaudithook(forbid)
    if sys.platform == "linux":
        limit_memory()

    def one_input(data: bytes) -> None:
        global watching
        watching = True
        try:
            check(data)
        finally:
            watching = False

    arguments = [
        sys.argv[0],
        f"-max_total_time={options.seconds}",
        f"-timeout={SECONDS_EACH}",
        f"-max_len={LONGEST.get(options.harness, 2**16)}",
        f"-artifact_prefix={found.parent}/{options.harness}-",
        "-print_final_stats=1",
        "-verbosity=1",
        *([f"-dict={HERE / 'questions.dict'}"] if options.harness == "questions" else []),
        str(found),
        str(seeds),
    ]
    atheris.Setup(arguments, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
