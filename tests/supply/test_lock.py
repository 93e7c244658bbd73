"""The lock file pins every development package, within the bounds, with hashes, and without download URLs."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?==([^ ;\\]+)", re.MULTILINE)


def developers_need():
    """Return the requirements of the extra "dev", those of other extras that it names included."""
    found, waiting = [], [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    while waiting:
        one = Requirement(waiting.pop())
        if one.name == PROJECT["name"]:
            waiting += [text for extra in sorted(one.extras) for text in PROJECT["optional-dependencies"][extra]]
        else:
            found.append(one)
    return found


@pytest.mark.parametrize("needed", developers_need(), ids=str)
def test_every_requirement_is_pinned_within_its_bounds(needed):
    versions = [Version(version) for name, _, version in PINNED.findall(LOCK) if name == canonicalize_name(needed.name)]
    assert versions, f"requirements-dev.lock lacks {needed.name}: make lock"
    assert all(version in needed.specifier for version in versions), "make lock"


def test_a_pin_names_the_extras_that_other_pins_require():
    # With hashes, pip takes coverage[toml] only if the lock says coverage[toml].
    extras = {name: set(re.findall(r"[^\s,]+", named)) for name, named, _ in PINNED.findall(LOCK)}
    assert any(extras.values()), "make lock"
    for name, chosen in extras.items():
        try:
            needed = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:  # a package for another system
            continue
        for requirement in needed:
            marker, other = requirement.marker, canonicalize_name(requirement.name)
            is_needed = marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *chosen))
            if is_needed and other != name:
                assert requirement.extras <= extras.get(other, requirement.extras), f"{name}: {requirement}; make lock"


def test_every_pin_has_hashes_and_no_address():
    pins = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(pins) > 50
    assert all(PINNED.match(pin) and "--hash=sha256:" in pin for pin in pins)
    assert "://" not in LOCK
    assert "--index" not in LOCK
