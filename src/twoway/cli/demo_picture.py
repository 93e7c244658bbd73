"""The demo's picture, an SVG that every browser opens: digits as shown to the model, as completed, and as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoway.storage.container import whole_or_not_at_all

_PIXEL = 11
_SIDE = 8 * _PIXEL
_STEP = _SIDE + 14
_LEFT, _TOP = 132, 14
_INK = np.array([24, 30, 56])
_HIDDEN = "#d6def6"
_RIGHT, _WRONG = "#166e3e", "#b02a26"


def draw_digits(grey: NDArray[np.float64], read: NDArray[np.int64], truth: NDArray[np.int64], path: Path) -> None:
    """Draw digits in columns: what the model was shown, what it made of it, the truth, and how it read each.

    Parameters
    ----------
    grey
        From 0, white, to 1, shape (3, n_digits, 64): shown, with NaN where hidden; completed; true.
    read, truth
        The digit that the model read, and the right one, shape (n_digits,).
    path
        The SVG to write.
    """
    width, bottom = _LEFT + len(read) * _STEP, _TOP + 3 * _STEP + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 24}" font-family="sans-serif" '
        'font-size="17" dominant-baseline="middle" shape-rendering="crispEdges">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for row, title in enumerate(("half is shown", "completed", "the original")):
        parts.append(f'<text x="14" y="{_TOP + row * _STEP + _SIDE // 2}">{title}</text>')
    for (row, column), levels in zip(np.ndindex(grey.shape[:2]), grey.reshape(-1, 8, 8), strict=True):
        parts.append(f'<g transform="translate({_LEFT + column * _STEP} {_TOP + row * _STEP})">')
        parts.append(f'<rect width="{_SIDE}" height="{_SIDE}" fill="white" stroke="#c8cede" stroke-width="2"/>')
        for (y, x), level in np.ndenumerate(levels):
            if level != 0:
                place = f'x="{x * _PIXEL}" y="{y * _PIXEL}" width="{_PIXEL}" height="{_PIXEL}"'
                parts.append(f'<rect {place} fill="{_colour(level)}"/>')
        parts.append("</g>")
    parts.append(f'<text x="14" y="{bottom}">read as</text>')
    for column, (digit, right) in enumerate(zip(read, truth, strict=True)):
        text, colour = (f"{digit}", _RIGHT) if digit == right else (f"{digit} (is {right})", _WRONG)
        x = _LEFT + column * _STEP + _SIDE // 2
        parts.append(f'<text x="{x}" y="{bottom}" text-anchor="middle" fill="{colour}">{text}</text>')
    with whole_or_not_at_all(path) as stream:
        stream.write("\n".join([*parts, "</svg>\n"]).encode())


def _colour(level: float) -> str:
    """Return a grey level as a colour; hidden pixels have a colour of their own."""
    return _HIDDEN if np.isnan(level) else "#" + bytes((255 + level * (_INK - 255)).round().astype(np.uint8)).hex()
