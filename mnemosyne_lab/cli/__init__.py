"""The commands of the laboratory: what tries and shows, and records nothing of a user's own."""
