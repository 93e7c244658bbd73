"""Records in the partitions of a Dask frame."""
