"""Reconstruct any turn: time travel, loading, verification, replay."""
