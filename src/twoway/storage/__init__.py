"""Files of arrays and text, written whole or not at all; checkpoints of long fits."""
