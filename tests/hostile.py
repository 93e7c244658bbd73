"""Hostile and unusual text, used as names and labels wherever these are shown or written."""

import numpy as np
import pandas as pd

HOSTILE = (
    "<script>window.ran = true</script>",
    '"><img src=x onerror="window.ran = true">',
    "</script></style><svg onload=window.ran=true>",
    "javascript:window.ran=true",
    "{{ 7 * 7 }} ${7 * 7} {% raw %}",
    "'; DROP TABLE records; --",
    '" OR "1"="1',
    "$(touch pwned) `touch pwned` ; touch pwned | cat",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1+1)*cmd",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\u202eturned\u2066 around\u200b",
    "../../../etc/passwd",
    "C:\\con\\..\\nul",
    "[bold red]markup[/bold red]",
    "%s %n {0} {name!r}",
    "two\nlines",
    "x" * 10_000,
    "",
    " ",
    "\t",
    "nan",
)

ASKED = HOSTILE[0]
"""A name to ask about."""


def hostile_frame(n_records=60, seed=0):
    """Return records whose names and labels are all hostile."""
    random = np.random.default_rng(seed)
    names = [name for name in HOSTILE if name.strip()]
    return pd.DataFrame(
        {
            name: [HOSTILE[code] for code in (place + 7 * random.integers(0, 3, n_records)) % len(HOSTILE)]
            for place, name in enumerate(names)
        }
    )


def is_safe(text):
    """Return whether text is safe for a terminal: no control characters except line ends."""
    return all(char == "\n" or char.isprintable() for char in text)
