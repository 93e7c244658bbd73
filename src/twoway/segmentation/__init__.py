"""Segments of people: latent classes, their number, their profiles, and how they relate to other variables."""
