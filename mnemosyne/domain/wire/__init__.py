"""A provider's API as bytes and blocks: body layout, recipes, normal form, client identity, cache markers."""
