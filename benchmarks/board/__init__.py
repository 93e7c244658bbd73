"""The board of peers: what `benchmarks/peers.py` runs, stores and shows."""
