-- The projection `lineage` is kept no more: nobody read it. What it told of an object, `mnemosyne object` reads from the
-- log itself.
drop table if exists
    mnemosyne.lineage_objects, mnemosyne.lineage_links, mnemosyne.lineage_history, mnemosyne.lineage_zones,
    mnemosyne.lineage_objects__side, mnemosyne.lineage_links__side, mnemosyne.lineage_history__side,
    mnemosyne.lineage_zones__side;

delete from mnemosyne.projections where name = 'lineage';

-- Nor does `working_set` hold wishes any more; its other tables are made anew by the code that fills them.
drop table if exists mnemosyne.working_set_wishes, mnemosyne.working_set_wishes__side;
