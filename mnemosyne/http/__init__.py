"""The proxy's HTTP layer: the gateway, the relay, the reply rewriters and the proxy's own pages."""
