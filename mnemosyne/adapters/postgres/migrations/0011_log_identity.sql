-- The identity of this log. An archive file and each reference to it carry the identity of the log that wrote them, so
-- that a copy of a log deletes no file of its original. A backup does not hold it: a restored log has its own.
create table mnemosyne.log_identity (id uuid not null);
insert into mnemosyne.log_identity values (gen_random_uuid());

-- References of earlier versions end with `]` and name no log: they are this log's. One that is damaged stays as it is.
update mnemosyne.content
set data = substr(data, 1, octet_length(data) - 1)
    || convert_to(', "' || (select id from mnemosyne.log_identity) || '"]', 'UTF8')
where encoding = 2 and octet_length(data) > 0 and get_byte(data, octet_length(data) - 1) = 93;
