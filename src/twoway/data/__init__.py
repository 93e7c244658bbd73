"""Records: how raw data are read, coded and kept, wherever they are."""
