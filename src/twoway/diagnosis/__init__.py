"""Whether a joint can be known from the evidence, how sure its answers are, and where it is wrong."""

from twoway.diagnosis import bounds

__all__ = ["bounds"]
