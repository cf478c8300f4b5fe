"""The cost of a prompt: tokens, prices, tariffs, and the prompt as the provider caches it."""
