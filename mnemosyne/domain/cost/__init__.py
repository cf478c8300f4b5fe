"""What a prompt costs, and whom: tokens, prices, the prompt as the provider caches it."""
