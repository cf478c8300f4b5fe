"""The proxy on the wire: the gateway, the one relay, the rewriter of replies, and our own pages."""
