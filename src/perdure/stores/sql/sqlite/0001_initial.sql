-- The first tables. The tenant comes first in every key.

-- A number or a word the store keeps about itself: its schema's version.
create table meta (
    name text primary key,
    value text not null
) strict, without rowid;

-- The snapshot of a run. The head (state to nudged) is always current; the body is as of `version`,
-- and the present is this row with the log's later rows folded in. The checks are witnesses of
-- the law, not the law.
create table runs (
    tenant text not null,
    id text not null,
    profile text not null,
    workflow text not null,
    queue text not null,
    priority integer not null check (priority between 0 and 9),
    attempt integer not null check (attempt >= 1),
    trace_id text not null,
    created_at integer not null,
    deadline integer,
    state text not null,
    token integer not null,
    worker text,
    wants_at integer,
    claim_rank integer not null,
    claim_at integer,
    due_at integer,
    nudged integer not null default 0,
    version integer not null,
    started_at integer,
    finished_at integer,
    updated_at integer not null,
    body text not null,
    primary key (tenant, id),
    -- null tests only: a list of words here would cost each claim a third
    check (worker is null or claim_at is null),
    check (finished_at is null or (worker is null and claim_at is null and due_at is null))
) strict, without rowid;

create index runs_claimable on runs (queue, workflow, claim_rank, claim_at)
    where claim_at is not null;
create index runs_due on runs (due_at) where due_at is not null;
create index runs_held on runs (worker) where worker is not null;
create index runs_nudged on runs (worker) where nudged = 1;

-- A run's payloads, apart from the row that changes often.
create table run_data (
    tenant text not null,
    run text not null,
    input text not null,
    result text,
    error text,
    primary key (tenant, run)
) strict;

-- The truth: one row a command. Its key is the sequence number of the command's first event, so a
-- second append from the same present is refused whatever else fails.
create table log (
    tenant text not null,
    run text not null,
    seq integer not null,
    last_seq integer not null check (last_seq >= seq),
    at integer not null,
    was text not null,
    actor text not null,
    command_id text not null,
    events text not null,
    primary key (tenant, run, seq)
) strict;

-- For people with a database shell: a row an event.
create view events as
select
    log.tenant,
    log.run,
    log.seq + event.key as seq,
    event.value ->> '$.type' as type,
    log.at,
    log.was,
    log.actor,
    log.command_id,
    event.value as data
from log, json_each(log.events) as event;

-- What must be unique, and whose it is.
create table keys (
    tenant text not null,
    kind text not null check (kind in ('start', 'signal')),
    scope text not null,
    key text not null,
    run text not null,
    digest text not null,
    primary key (tenant, kind, scope, key)
) strict, without rowid;

-- One row a worker process; its lease stands for every run it holds.
create table workers (
    worker text primary key,
    name text not null,
    host text not null,
    pid integer not null,
    started_at integer not null,
    lease_until integer not null,
    dead integer not null default 0
) strict, without rowid;
