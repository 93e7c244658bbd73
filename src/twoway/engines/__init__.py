"""Where records come from when they are not in memory yet."""
