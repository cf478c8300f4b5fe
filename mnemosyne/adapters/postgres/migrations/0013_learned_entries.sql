-- Entries are written under a second version of their event, and a confirmation can be undone.
do $$ begin execute replace(
    replace(
        pg_get_functiondef('mnemosyne.shown_entries()'::regprocedure),
        $old$topic = 'knowledge.entry_written.v1'$old$,
        $new$topic in ('knowledge.entry_written.v1', 'knowledge.entry_written.v2')$new$
    ),
    $old$as at from told
        where topic = 'knowledge.entry_confirmed.v1'$old$,
    $new$as at from standing
        where topic = 'knowledge.entry_confirmed.v1'$new$
); end $$;
