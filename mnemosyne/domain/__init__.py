"""All decisions, without I/O, clock or randomness. Its packages, lowest first; each imports only lower ones.

    text            words, entities, passages, stubs
    wire            a provider's API as bytes and blocks
    cost            tokens, prices, the prompt and its cache
    objects         AGGREGATE: remembered objects, and their fidelity in each branch
    tools           the model's tools and tags to manage its memory
    summaries       renditions of objects, and their losses
    session         AGGREGATE: branches, turns and rounds, the ledger
    segmentation    how objects are made from messages
    window          composing and rewriting the upstream history
    recall          searching past content
    knowledge       AGGREGATE: cross-session knowledge: the memory of projects, preferences
    history         reconstructing any turn

``ports`` declares the external services that these need. ``docs/architecture.md`` follows a request through them.
"""
