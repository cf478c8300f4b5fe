"""Vectors of texts, by words alone or by a model."""
