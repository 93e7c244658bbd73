"""Records in files, one in memory or streamed."""
