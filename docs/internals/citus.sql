-- Distributes the tables that grow by session. Run it once on the coordinator, as their owner, while no server runs, after
-- a server made the schema and `create extension citus`. It was not run on Citus (docs/adr/0104): a test checks on plain
-- PostgreSQL that each key contains the column by which its table is distributed.
set search_path = mnemosyne, public;

-- Positions come from one sequence, and a unique index would need the session.
drop index stored_events_notification_id_idx;
create index stored_events_notification_id_idx on stored_events (notification_id);

alter table cold_requests drop constraint cold_requests_stream_fkey;

select create_distributed_table('stored_events', 'originator_id');
select create_distributed_table('content', 'stream', colocate_with => 'stored_events');
select create_distributed_table('object_texts', 'stream', colocate_with => 'stored_events');
select create_distributed_table('object_passages', 'stream', colocate_with => 'stored_events');
select create_distributed_table('object_words', 'stream', colocate_with => 'stored_events');
select create_distributed_table('object_vectors', 'stream', colocate_with => 'stored_events');
select create_distributed_table('cold_sessions', 'stream', colocate_with => 'stored_events');
select create_distributed_table('cold_requests', 'stream', colocate_with => 'stored_events');

alter table cold_requests
    add constraint cold_requests_stream_fkey foreign key (stream) references cold_sessions on delete cascade;

-- The tables of read models and the bookkeeping stay on the coordinator: a rebuild drops and makes them.
