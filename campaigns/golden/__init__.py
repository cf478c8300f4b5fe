"""How the golden logs of ``tests/golden`` were made; run by hand, once for each log."""
