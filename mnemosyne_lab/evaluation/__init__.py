"""What a policy costs, saves and hides: recorded sessions driven through the real pipeline, without a model."""
