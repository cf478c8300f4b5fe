"""Work for a helper model: tasks, their prompts, and the verification of answers."""
