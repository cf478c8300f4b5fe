"""The scenes of the golden logs of ``tests/golden``; run by hand, once for each log."""
