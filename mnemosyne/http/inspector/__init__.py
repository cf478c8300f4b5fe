"""Our own pages under ``/-/``: for the person at this machine, never for a web page that found the port."""
