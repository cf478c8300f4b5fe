-- What `analyze` samples it keeps, whole values of up to a kilobyte in a system table, and forgetting a session would
-- leave them there. So nothing is sampled of the columns that hold what was said or what was made from it. No statement
-- chooses its plan by them.
alter table mnemosyne.stored_events alter column state set statistics 0;
alter table mnemosyne.content alter column data set statistics 0;
alter table mnemosyne.object_texts alter column tags set statistics 0;
alter table mnemosyne.object_words alter column words set statistics 0;
alter table mnemosyne.object_vectors alter column vector set statistics 0;

-- Giving a column the type that it has rewrites nothing, and drops what was sampled of it before; to delete that in the
-- system table itself, one would have to be the server's superuser.
alter table mnemosyne.stored_events alter column state type bytea;
alter table mnemosyne.content alter column data type bytea;
alter table mnemosyne.object_texts alter column tags type text[];
alter table mnemosyne.object_words alter column words type tsvector;
alter table mnemosyne.object_vectors alter column vector type halfvec(384);
