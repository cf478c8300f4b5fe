"""Evaluation of context policies: recorded sessions driven through the real pipeline, without a model."""
