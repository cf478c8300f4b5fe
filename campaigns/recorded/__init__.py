"""Checks against recorded sessions and captured requests, where this machine has them."""
