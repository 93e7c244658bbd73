"""Whole persons whose tables agree with published ones."""
