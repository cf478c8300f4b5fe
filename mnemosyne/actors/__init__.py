"""One task per session: it gathers, decides, appends and answers. What it keeps in memory is a cache of the log."""
