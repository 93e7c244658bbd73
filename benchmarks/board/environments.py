"""An environment for each peer, made once in a folder of the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PROGRAMS = Path(__file__).resolve().parent / "programs"
# Versions are pinned: a newer one is another peer.
PACKAGES = {
    "scikit-learn": ("scikit-learn==1.9.1",),
    "missforest": ("missforest==4.2.3", "scikit-learn==1.9.1", "lightgbm==4.7.0", "pandas==2.3.3", "tqdm==4.70.1"),
    "miceforest": ("miceforest==6.0.5", "lightgbm==4.5.0", "pandas==2.3.3"),
    "stepmix": ("stepmix==3.0.0", "scikit-learn==1.7.2"),
    "crowd-kit": ("crowd-kit==1.4.2",),
    "mbi": ("mbi==2.0.0",),
    "deeprob-kit": (
        *("numpy==1.26.4", "scipy==1.13.1", "scikit-learn==1.5.2", "networkx==3.4.2", "matplotlib==3.9.4"),
        *("joblib==1.4.2", "tqdm==4.67.1"),
    ),
}
# Installed without what they require: LearnSPN needs none of the neural networks of its package.
ALONE = {"deeprob-kit": ("deeprob-kit==1.1.0",)}
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "twoway-peers"


@dataclass(frozen=True)
class Environments:
    """The folder with the environments, each made when it is first asked for."""

    folder: Path

    def python(self, name: str) -> str:
        """Return the Python of an environment; packages of other versions than those wanted are replaced."""
        place, wanted = self.folder / name, "\n".join((*PACKAGES[name], *ALONE.get(name, ())))
        python, stamp = place / "bin" / "python", place / "packages.txt"
        if not stamp.exists() or stamp.read_text() != wanted:
            uv = shutil.which("uv")
            make = [uv, "venv", "--quiet", "--clear", "--python"] if uv else None
            if make:
                subprocess.run([*make, sys.executable, str(place)], check=True)
                install = [str(uv), "pip", "install", "--quiet", "--python", str(python)]
            else:
                subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
                install = [str(python), "-m", "pip", "install", "--quiet"]
            subprocess.run([*install, *PACKAGES[name]], check=True)
            if name in ALONE:
                subprocess.run([*install, "--no-deps", *ALONE[name]], check=True)
            stamp.write_text(wanted)
        return str(python)

    def run(
        self, name: str, program: str, folder: str, **arrays: NDArray[np.generic]
    ) -> dict[str, NDArray[np.generic]]:
        """Give arrays to a program, in one thread, and return those that it gives back."""
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, **arrays)
        found.unlink(missing_ok=True)
        command = [self.python(name), str(PROGRAMS / f"{program}.py"), str(given), str(found)]
        subprocess.run(command, check=True, env={**os.environ, **_ONE_THREAD}, stdout=sys.stderr)
        with np.load(found) as stored:
            return dict(stored)

    def predict(
        self, program: str, environment_of: Mapping[str, str], methods: Sequence[str], **arrays: NDArray[np.generic]
    ) -> Iterator[tuple[str, NDArray[np.float64], float, str]]:
        """Yield the probabilities, CPU seconds and options of peers; those of one environment share a process."""
        for name in dict.fromkeys(environment_of[method] for method in methods):
            own = [method for method in methods if environment_of[method] == name]
            with tempfile.TemporaryDirectory() as folder:
                found = self.run(name, program, folder, methods=np.array(own), **arrays)
            for method in own:
                chances, seconds, options = (found[f"{what} {method}"] for what in ("chances", "seconds", "options"))
                yield method, chances, float(seconds), str(options)
