"""Run a command repeatedly, killed at its first disk operation, then at its second, and so on.

python kill_points.py FOLDER OUTPUT COMMAND...

The command runs in FOLDER, where OUTPUT stands already, and would replace it. Prints a JSON line for each run: whether
it was killed, and whether OUTPUT is then the "old" file, the "new" one, or "torn".
"""

import json
import os
import resource
import signal
import sys
from itertools import count
from pathlib import Path

from twoway.cli import run

_TOUCHING = {"os.rename", "os.chmod", "os.truncate", "os.remove"}


def die_at(point, folder):
    """Kill this process just before the given one of the points at which it changes something in a folder."""
    left = point

    def touch():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event, details):
        writes = event == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
        if not (writes or event in _TOUCHING) or isinstance(details[0], int):
            return
        if os.path.realpath(os.fsdecode(details[0])).startswith(folder):
            touch()

    def fsync(descriptor):
        touch()
        original(descriptor)

    original, os.fsync = os.fsync, fsync
    sys.addaudithook(watch)


def die_in_the_middle(n_bytes):
    """Kill this process when it has written so many bytes of one file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def in_a_child(arguments, die):
    """Return the signal that ended a command in a process of its own, 0 if none did."""
    child = os.fork()
    if child == 0:
        die()
        os._exit(run(arguments))
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit(f"the command failed with code {os.WEXITSTATUS(status)}")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main(folder, output, *words):
    arguments = list(words)
    os.chdir(folder)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    target = Path(output)
    old = target.read_bytes()
    # Here, not in a child: each of those begins with everything imported and compiled.
    assert run(arguments) == 0
    new = target.read_bytes()
    assert new != old, "the command changes nothing"
    sizes = sorted({1, len(new) // 2, len(new) - 1})
    for point in count(1):
        deaths = [lambda: die_at(point, os.getcwd())]  # noqa: B023  # called at once
        if point <= len(sizes):
            deaths.append(lambda: die_in_the_middle(sizes[point - 1]))  # noqa: B023
        for number, die in enumerate(deaths):
            target.write_bytes(old)
            ended = in_a_child(arguments, die)
            found = {old: "old", new: "new"}.get(target.read_bytes(), "torn")
            print(json.dumps({"way": number, "killed": bool(ended), "file": found}), file=told, flush=True)
            if number == 0 and not ended:
                return


main(*sys.argv[1:])
