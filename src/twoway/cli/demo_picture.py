"""The demo's picture: digits as shown to the model, as it completed them, and as they are.

Drawn with Pillow, which needs no other package; matplotlib would bring eight.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoway.storage.container import whole_or_not_at_all

if TYPE_CHECKING:
    from PIL.Image import Image

_PIXEL = 11
_SIDE = 8 * _PIXEL
_GAP = 14
_LEFT = 132
_INK = (24, 30, 56)
_HIDDEN = (214, 222, 246)
_RIGHT, _WRONG = (22, 110, 62), (176, 42, 38)


def draw_digits(grey: NDArray[np.float64], read: NDArray[np.int64], truth: NDArray[np.int64], path: Path) -> None:
    """Draw digits in columns: what the model was shown, what it made of it, the truth, and how it read each.

    Parameters
    ----------
    grey
        From 0, white, to 1, shape (3, n_digits, 64): shown, with NaN where hidden; completed; true.
    read, truth
        The digit that the model read, and the right one, shape (n_digits,).
    path
        The PNG to write.
    """
    from PIL import Image, ImageDraw, ImageFont

    titles = ("half is shown", "completed", "the original")
    width = _LEFT + len(read) * (_SIDE + _GAP)
    picture = Image.new("RGB", (width, _GAP + 3 * (_SIDE + _GAP) + 34), "white")
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(17)
    for row, title in enumerate(titles):
        top = _GAP + row * (_SIDE + _GAP)
        pen.text((14, top + _SIDE / 2), title, fill=_INK, font=font, anchor="lm")
        for column in range(len(read)):
            left = _LEFT + column * (_SIDE + _GAP)
            picture.paste(_image(grey[row, column]), (left, top))
            pen.rectangle((left - 1, top - 1, left + _SIDE, top + _SIDE), outline=(200, 206, 222))
    bottom = _GAP + 3 * (_SIDE + _GAP) + 10
    pen.text((14, bottom), "read as", fill=_INK, font=font, anchor="lm")
    for column, (got, right) in enumerate(zip(read, truth, strict=True)):
        middle = _LEFT + column * (_SIDE + _GAP) + _SIDE / 2
        text = f"{got}" if got == right else f"{got} (is {right})"
        pen.text((middle, bottom), text, fill=_RIGHT if got == right else _WRONG, font=font, anchor="mm")
    with whole_or_not_at_all(path) as stream:
        picture.save(stream, format="PNG")


def _image(levels: NDArray[np.float64]) -> Image:
    """Return 8 × 8 grey levels as a picture, those that are NaN in a colour of their own."""
    from PIL import Image

    shares = levels.reshape(8, 8, 1)
    colours = np.where(np.isnan(shares), _HIDDEN, 255 + np.nan_to_num(shares) * (np.array(_INK) - 255))
    small = Image.fromarray(colours.round().astype(np.uint8))
    return small.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
