"""GEN1 automotive detection (Prophesee): recordings, boxes, index and metric."""
