"""Where objects come from: the blocks of a history become drafts, and drafts become objects."""
