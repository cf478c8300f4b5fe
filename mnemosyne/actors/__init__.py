"""One task per session: it collects inputs, decides, appends events and answers. Its memory is a cache of the log."""
