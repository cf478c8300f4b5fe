"""The proxy's own pages under ``/-/``: for the user of this machine, never for web pages of other sites."""
