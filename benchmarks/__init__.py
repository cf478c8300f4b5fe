"""What is measured, each time against something that is not us: ``python -m benchmarks``."""
