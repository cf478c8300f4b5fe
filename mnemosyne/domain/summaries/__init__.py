"""Renditions of objects at less than full fidelity, how they are made and what they lose."""
