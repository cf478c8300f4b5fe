"""Any turn again: time travel, loading, verification, replay."""
