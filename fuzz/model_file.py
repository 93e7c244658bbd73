"""Model files: refused with a reason, or a model that is sound, prints, and is saved to the same bytes each time."""

from __future__ import annotations

import json
import math

from files import again, write_file

from twoway.cli.info import _model_info as info_of
from twoway.errors import FileFormatError
from twoway.explorer.page import describe_page
from twoway.model.pmf import JointPMF
from twoway.storage import container
from twoway.uncertainty.bootstrap import Bootstrap


def check(data: bytes) -> None:
    """Raise where a file is neither refused nor sound."""
    path = write_file(data)
    container.container_kind(path)
    try:
        pmf = JointPMF.load(path)
    except FileFormatError as error:
        assert str(error).isprintable()
        return
    pmf.save(again(path))
    first = again(path).read_bytes()
    loaded = JointPMF.load(again(path))
    loaded.save(again(path))
    assert again(path).read_bytes() == first
    name = pmf.schema.names[0]
    shares = pmf.marginal(name).array
    assert math.isclose(shares.sum(), 1.0, abs_tol=1e-6)
    assert (shares >= 0).all()
    _, text = info_of(path)
    assert text.replace("\n", "").isprintable() or pmf.report is not None
    assert repr(pmf).isprintable()
    assert str(pmf.report).replace("\n", "").isprintable()
    json.dumps(describe_page(pmf, "title"), allow_nan=False)
    try:
        Bootstrap.load(path)
    except FileFormatError:
        return
