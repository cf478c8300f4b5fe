"""All that is decided, without I/O, a clock or chance. Its rooms, lowest first; imports between them only go down.

    text            words, entities, passages, stubs: what any text is
    wire            a provider's API as bytes and blocks
    cost            tokens, prices, the prompt and its cache
    objects         AGGREGATE: what is remembered, and what each branch shows of it
    tools           what the model may call or write to manage its memory
    summaries       renditions of objects, and what they lose
    session         AGGREGATE: branches, turns and rounds, the ledger
    segmentation    where objects come from
    window          what goes upstream, and when it changes
    recall          how the past is asked
    knowledge       AGGREGATE: what outlives a session: the memory of projects, preferences
    history         any turn again

``ports`` is what all of it needs from the outside. ``docs/architecture.md`` tells how a request walks through.
"""
