"""The scenarios of the documents that asked for the project, each played through the real parts."""
