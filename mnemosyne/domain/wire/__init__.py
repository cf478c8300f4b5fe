"""A provider's API as bytes and blocks: the layout of a body, recipes, normal form, identity, cache markers."""
