"""AGGREGATE: one client session, its branches, turns and rounds, its ledger."""
