"""The joint distribution and every question it answers."""
