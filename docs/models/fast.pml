/* Fast commits: a producer makes its message visible itself, and the resolver judges afterwards.
 *
 * The model of fast commits for spin. docs/design.md, "The model of fast commits", names the rule behind
 * each switch, what is assumed and what is left out. scripts/model runs it.
 *
 * A half names an id F, a transactional id of its producer. In one Kafka transaction of F the producer writes
 * messages to the real topic and ops that say so to the op partitions. Nothing is asked about such a half, and
 * nothing given up, before the resolver has revoked F and has read its own record of that in the op partition.
 *
 * Where it meets delivery.pml: a batch of the resolver is one step here (`write`), since that model shows that
 * each batch becomes visible once, as a whole and in order. A late EndTxn of F is the fault that both know.
 */

/* ---------------------------------------------------------------- size */
#ifndef HALVES
#define HALVES 1
#endif
#ifndef IDS                             /* 2: each half has an id of its own */
#define IDS 1
#endif
#ifndef QUEUES                          /* 2: each half has a queue of its own; a transaction may span both */
#define QUEUES 1
#endif
#ifndef AGENTS
#define AGENTS 1
#endif
#ifndef CHECKS                          /* of a half, before it may be discarded */
#define CHECKS 1
#endif
#ifndef LOG                             /* records of an op partition that are not read yet */
#define LOG 12
#endif

/* ---------------------------------------------------------------- what else happens: 1 lets it */
#ifndef TIME_OUTS                       /* the coordinator ends a transaction that hangs */
#define TIME_OUTS 1
#endif
#ifndef DISCARDS                        /* agents may be silent, and the resolver gives up */
#define DISCARDS 0
#endif
#ifndef OPERATORS                       /* somebody ends a half by hand, at any time */
#define OPERATORS 0
#endif
#ifndef SLOW_LOCALS                     /* a producer gives the fast lane up for one half: UNKNOWN, fast: false */
#define SLOW_LOCALS 0
#endif
#ifndef OTHER_PROCESSES                 /* a process of the group finds a committed half, and ends it */
#define OTHER_PROCESSES 0
#endif
#ifndef OLD_RESOLVERS                   /* a resolver that was replaced still revokes, fences and writes */
#define OLD_RESOLVERS 0
#endif
#ifndef LATE_END_TXNS                   /* a copy of EndTxn is on its way when its call has returned */
#define LATE_END_TXNS 0
#endif
#ifndef FORGERS                         /* a producer writes a `revoked` record */
#define FORGERS 0
#endif
#ifndef SKEWED                          /* brokers' clocks disagree: a fence of before a check counts for it */
#define SKEWED 0
#endif
#ifndef LOSSES                          /* an op partition loses a record before it is read */
#define LOSSES 0
#endif
#ifndef REBUILDS                        /* the resolver loses its state, and reads everything again */
#define REBUILDS 0
#endif

#ifndef REACH                           /* 1 to 6: the end that the search looks for, in `Monitor` */
#define REACH 0
#endif

/* ---------------------------------------------------------------- rules: 0 plants the fault */
/* Of the producer. */
#ifndef INITIALISE_ONCE                 /* nobody initialises F a second time and goes on fast */
#define INITIALISE_ONCE 1
#endif
#ifndef OWN_ID                          /* a half is committed fast by the id that it names, and no other */
#define OWN_ID 1
#endif
#ifndef GIVE_UP_ID                      /* after any failure F is not used again */
#define GIVE_UP_ID 1
#endif
#ifndef STOP_FIRST                      /* a client that sends a plain commit sends no EndTxn any more */
#define STOP_FIRST 1
#endif
#ifndef DROP_AFTER_SLOW_COMMIT          /* as in delivery.pml: nor is F used after a call that may have been retried */
#define DROP_AFTER_SLOW_COMMIT 1
#endif
#ifndef FENCE_FIRST                     /* another process initialises F before it ends a half */
#define FENCE_FIRST 1
#endif
/* Of the resolver. */
#ifndef CHECKS_WAIT                     /* no check and no discard while F is not revoked */
#define CHECKS_WAIT 1
#endif
#ifndef REVOKE                          /* F is revoked as soon as a half of it is due */
#define REVOKE 1
#endif
#ifndef READ_BACK                       /* F is revoked when the record is read, not when Kafka has answered */
#define READ_BACK 1
#endif
#ifndef RECORD_LAST                     /* the record is stored after Kafka has answered */
#define RECORD_LAST 1
#endif
#ifndef WAIT_FOR_MARKERS                /* InitProducerId is refused while an ending transaction lacks markers */
#define WAIT_FOR_MARKERS 1
#endif
#ifndef REPEAT_CONCURRENT               /* CONCURRENT_TRANSACTIONS is no success */
#define REPEAT_CONCURRENT 1
#endif
#ifndef PROOF                           /* a `revoked` record without the resolver's proof does nothing */
#define PROOF 1
#endif
#ifndef PLAIN_WAITS                     /* a plain commit waits until F is revoked */
#define PLAIN_WAITS 1
#endif
#ifndef ANSWERS_WAIT                    /* an answer to a check too */
#define ANSWERS_WAIT 1
#endif
#ifndef OPERATOR_WAITS                  /* an operator's end too */
#define OPERATOR_WAITS 1
#endif
#ifndef NEVER_LATE                      /* no delivered op is refused as LATE_END */
#define NEVER_LATE 1
#endif
#ifndef WAIT_FOR_HALF                   /* a delivered op waits for its half, and is never UNKNOWN_HALF */
#define WAIT_FOR_HALF 1
#endif
#ifndef FREE_STUCK                      /* F is revoked too where its open transaction holds up the op partition */
#define FREE_STUCK 1
#endif
#ifndef HOLD_LOST                       /* where ops were lost, a person decides */
#define HOLD_LOST 1
#endif
/* Of delivery. */
#ifndef ONE_WRITER                      /* the batch of a resolver that was replaced is refused */
#define ONE_WRITER 1
#endif

mtype = {
  /* records of an op partition */
  Delivered, Plain, Rollback, CheckCommit, CheckRollback, OperatorCommit, OperatorRollback,
  GivenUp, Revoked, Forged, Fence,
  /* of the coordinator */
  Complete, Ongoing, PrepareCommit, PrepareAbort,
  Ok, Fenced,
  /* outcomes, and who decided */
  Fast, Committed, RolledBack, Discarded,
  Application, Agent, Operator, Limit
}

#define bit(n) (1 << (n))
#define REAL QUEUES                     /* the real topic; the op partitions are 0 to QUEUES - 1 */
#if IDS == 1
#define id_of(h) 0
#else
#define id_of(h) h
#endif
#if QUEUES == 1
#define queue_of(h) 0
#define in_queue(halves, q) halves
#define queues_of(halves) (halves != 0)
#else
#define queue_of(h) h
#define in_queue(halves, q) (halves & bit(q))
#define queues_of(halves) halves
#endif
#define partitions_of(halves) (queues_of(halves) | bit(REAL))

typedef Record { mtype kind; byte halves, id; bit open }
typedef Partition { Record record[LOG]; byte length, position }
typedef Half {
  bit stored; mtype database; byte messages;
  mtype plain;                          /* an ordinary op on its way */
  /* the resolver's */
  bit read, due, fenced, given_up; byte checks, asked; mtype outcome, by, waits, waits_by
}
typedef Id {
  mtype state = Complete; bit current = 1;       /* current: no InitProducerId has raised the epoch */
  byte halves, unmarked;                /* of the transaction; partitions that lack a marker */
  byte sent, stored;                    /* partitions with a Produce on its way, and acknowledged */
  bit end_txn, late, slow; mtype answer;
  byte ready                            /* halves that the application has handed over */
}

Partition op[QUEUES];
Half half[HALVES];
Id id[IDS];
bit revoked[IDS * QUEUES], sending[IDS * QUEUES];
bit lost, rebuilt;
byte deliver, ask;                      /* decided by the batch that is to be written */

#define pending(h) (half[h].read && !half[h].outcome)
#define is_revoked(h) (revoked[id_of(h) * QUEUES + queue_of(h)] || half[h].given_up)
#define is_held (lost && HOLD_LOST)
#define is_refusal(h) (half[h].outcome == RolledBack || half[h].outcome == Discarded)
#define is_ending(f) (id[f].state == PrepareCommit || id[f].state == PrepareAbort)
#define is_overruled(h) (half[h].by == Agent && half[h].database == Committed)
#define decided (deliver || ask)
#define next(q) op[q].record[op[q].position]
#define stands(q) (op[q].position < op[q].length && next(q).open)

/* ---------------------------------------------------------------- the op partitions */
inline append(to, what, those, by_id, is_open) {
  assert(op[to].length < LOG);                                           /* the model's log is too small */
  op[to].record[op[to].length].kind = what; op[to].record[op[to].length].halves = those;
  op[to].record[op[to].length].id = by_id; op[to].record[op[to].length].open = is_open;
  op[to].length++;
  printf("%e of halves %d is stored in queue %d\n", what, those, to)
}

inline move(at, here, there) {
  op[at].record[here].kind = op[at].record[there].kind; op[at].record[here].halves = op[at].record[there].halves;
  op[at].record[here].id = op[at].record[there].id; op[at].record[here].open = op[at].record[there].open
}

inline remove(from, which) {
  i = which;
  do
  :: i + 1 < op[from].length -> move(from, i, i + 1); i++
  :: else -> break
  od;
  op[from].record[i].kind = 0; op[from].record[i].halves = 0;
  op[from].record[i].id = 0; op[from].record[i].open = 0;
  op[from].length--; i = 0
}

/* A message becomes visible, by the producer or by the resolver. */
inline appear(shown) {
  half[shown].messages++;
  printf("message %d of half %d is visible\n", half[shown].messages, shown);
  assert(half[shown].messages < 2);                                         /* two messages */
  assert(!is_refusal(shown));                                           /* a message of no commit */
  assert(half[shown].by == Operator || half[shown].database == Committed)       /* a message of nobody */
}

/* ---------------------------------------------------------------- Kafka: the coordinator of F */
#define is_open_op(record, f) (record.open && record.id == f && record.kind == Delivered)

inline end_ops(ending, producer) {
  j = op[ending].position;
  do
  :: j == op[ending].length -> break
  :: j < op[ending].length && is_open_op(op[ending].record[j], producer) ->
       if :: id[producer].state == PrepareCommit -> op[ending].record[j].open = 0; j++ :: else -> remove(ending, j) fi
  :: else -> j++
  od;
  j = 0
}

inline mark(one, partition) {
  id[one].unmarked = id[one].unmarked & ~bit(partition);
  if
  :: partition != REAL -> end_ops(partition, one)
  :: partition == REAL && id[one].state == PrepareCommit && (id[one].stored & bit(REAL)) ->
       for (j : 0 .. HALVES - 1) { if :: id[one].halves & bit(j) -> appear(j) :: else fi }
       j = 0
  :: else
  fi
}

inline arrive(one, partition) {
  id[one].sent = id[one].sent & ~bit(partition);
  if
  :: id[one].current && id[one].state == Ongoing ->
       id[one].stored = id[one].stored | bit(partition);
       if :: partition != REAL -> append(partition, Delivered, in_queue(id[one].halves, partition), one, 1) :: else fi
  :: else
  fi
}

proctype Coordinator(byte f) {
  byte i, j;
end:
  do
  :: atomic { id[f].sent & bit(0) -> arrive(f, 0) }
  :: atomic { QUEUES > 1 && (id[f].sent & bit(QUEUES - 1)) -> arrive(f, QUEUES - 1) }
  :: atomic { id[f].sent & bit(REAL) -> arrive(f, REAL) }
  :: atomic { id[f].end_txn ->
       id[f].end_txn = 0;
       if
       :: id[f].current && id[f].state == Ongoing ->
            id[f].state = PrepareCommit; id[f].answer = Ok; printf("EndTxn of F%d is accepted\n", f);
            if :: LATE_END_TXNS && !id[f].slow -> id[f].late = 1; id[f].slow = 1 :: true fi
       :: else -> id[f].answer = Fenced; printf("EndTxn of F%d is refused\n", f)
       fi }
  :: atomic { id[f].late && id[f].current && id[f].state == Ongoing ->
       id[f].late = 0; id[f].state = PrepareCommit; printf("late EndTxn of F%d commits the next transaction\n", f) }
  :: atomic { is_ending(f) && (id[f].unmarked & bit(0)) -> mark(f, 0) }
  :: atomic { QUEUES > 1 && is_ending(f) && (id[f].unmarked & bit(QUEUES - 1)) -> mark(f, QUEUES - 1) }
  :: atomic { is_ending(f) && (id[f].unmarked & bit(REAL)) -> mark(f, REAL) }
  :: atomic { is_ending(f) && !id[f].unmarked ->
       id[f].state = Complete; id[f].halves = 0; id[f].sent = 0; id[f].stored = 0 }
  :: atomic { TIME_OUTS && id[f].state == Ongoing ->
       id[f].state = PrepareAbort; id[f].current = 0; id[f].sent = 0; printf("the transaction of F%d times out\n", f) }
  od
}

/* InitProducerId by anybody but the client that holds F: until it succeeds. */
inline initialise(one) {
  do
  :: atomic { id[one].state == Complete -> id[one].current = 0; printf("F%d is fenced\n", one); break }
  :: atomic { id[one].state == Ongoing -> id[one].state = PrepareAbort; id[one].current = 0; id[one].sent = 0 }
  :: atomic { !WAIT_FOR_MARKERS && id[one].state == PrepareCommit -> id[one].current = 0; break }
  :: atomic { !REPEAT_CONCURRENT && id[one].state == PrepareCommit -> break }
  od
}

/* ---------------------------------------------------------------- applications and their producer */
proctype Transaction(byte h) {
  bit only_plain;
  atomic { half[h].stored = 1 };
  if
  :: true
  :: atomic { SLOW_LOCALS -> only_plain = 1; append(queue_of(h), GivenUp, bit(h), 0, 0) }
  fi;
  if
  :: atomic { !half[h].database -> half[h].database = Committed; printf("the database commits half %d\n", h) };
       if
       :: atomic { !only_plain -> id[id_of(h)].ready = id[id_of(h)].ready | bit(h) }
       :: half[h].plain = Plain
       :: true                          /* dies */
       fi
  :: atomic { half[h].database != Committed -> half[h].plain = Rollback }
  :: true                               /* dies, or sleeps */
  fi
}

/* An ordinary op arrives at any time, or is lost. */
proctype Network(byte h) {
end:
  do
  :: atomic { half[h].plain -> append(queue_of(h), half[h].plain, bit(h), 0, 0); half[h].plain = 0 }
  :: atomic { half[h].plain -> half[h].plain = 0; printf("an op of half %d is lost\n", h) }
  od
}

inline send_plain(halves) {
  for (k : 0 .. HALVES - 1) { if :: (halves) & bit(k) -> half[k].plain = Plain :: else fi }
  k = 0
}

/* The client that holds F commits what is ready, in one Kafka transaction; it may die or sleep at any step. */
proctype Producer(byte f) {
  byte mine, k; bit given_up, again;
end:
  do
  :: atomic { id[f].ready && given_up ->
       if
       :: !OWN_ID && f + 1 < IDS -> id[f + 1].ready = id[f + 1].ready | id[f].ready
       :: else -> send_plain(id[f].ready)
       fi;
       id[f].ready = 0 }
  :: atomic { id[f].ready && !given_up && !id[f].current -> given_up = 1 }
  :: atomic { !INITIALISE_ONCE && !again && !id[f].current && id[f].state == Complete ->
       again = 1; id[f].current = 1; given_up = 0; printf("F%d is initialised again\n", f) }
  :: atomic { id[f].ready && !given_up && id[f].current && id[f].state == Complete ->
       mine = id[f].ready;
       if :: true :: HALVES > 1 && mine == 3 -> mine = 1 :: HALVES > 1 && mine == 3 -> mine = 2 fi;
       id[f].ready = id[f].ready & ~mine;
       id[f].state = Ongoing; id[f].halves = mine; id[f].answer = 0;
       id[f].unmarked = partitions_of(mine); id[f].sent = partitions_of(mine);
       printf("F%d begins a transaction of halves %d\n", f, mine) };
     if
     :: atomic { id[f].stored == partitions_of(mine) && id[f].current && id[f].state == Ongoing -> id[f].end_txn = 1 };
          if
          :: atomic { id[f].answer == Ok -> if :: DROP_AFTER_SLOW_COMMIT && id[f].slow -> given_up = 1 :: else fi }
          :: atomic { given_up = 1; send_plain(mine) }         /* refused, or it waits no longer */
          :: goto dead
          fi
     :: atomic { given_up = 1; send_plain(mine) };             /* refused, or it waits no longer */
          if
          :: true
          :: atomic { !STOP_FIRST && id[f].stored == partitions_of(mine) && id[f].state == Ongoing -> id[f].end_txn = 1 }
          fi
     :: atomic { id[f].current && id[f].state == Ongoing ->    /* aborts */
          id[f].state = PrepareAbort; id[f].sent = 0;
          if
          :: given_up = 1; send_plain(mine)
          :: !GIVE_UP_ID && !again -> again = 1; id[f].ready = id[f].ready | mine
          fi }
     :: goto dead
     fi;
     mine = 0
  od;
dead: mine = 0
}

/* ---------------------------------------------------------------- the resolver: one record is one batch */
inline settle(ended, how, who) {
  half[ended].outcome = how; half[ended].by = who;
  half[ended].due = 0; half[ended].waits = 0; half[ended].waits_by = 0;
  printf("half %d ends: %e by %e\n", ended, half[ended].outcome, half[ended].by);
  if :: half[ended].outcome == Committed -> deliver = deliver | bit(ended) :: else fi;
  assert(!is_refusal(ended) || !half[ended].messages);                  /* a message of no commit */
  assert(!is_refusal(ended) || !is_overruled(ended))                    /* a commit is rolled back */
}

/* An end that no fast commit may contradict: while F is not revoked, the first one waits. */
#define must_wait(who) ((who == Application && PLAIN_WAITS) || (who == Agent && ANSWERS_WAIT) || \
  (who == Operator && OPERATOR_WAITS))

inline end_when_revoked(held, wanted, from) {
  if
  :: !is_held && (is_revoked(held) || !must_wait(from)) -> settle(held, wanted, from)
  :: else -> if :: !half[held].waits -> half[held].waits = wanted; half[held].waits_by = from :: else fi
  fi
}

inline judge(judged, what) {
  if
  :: what == Delivered -> if :: settle(judged, Fast, Application) :: !NEVER_LATE fi
  :: what == Plain -> end_when_revoked(judged, Committed, Application)
  :: what == Rollback -> if :: !half[judged].waits -> settle(judged, RolledBack, Application) :: else fi
  :: what == CheckCommit -> end_when_revoked(judged, Committed, Agent)
  :: what == CheckRollback -> end_when_revoked(judged, RolledBack, Agent)
  :: what == OperatorCommit -> end_when_revoked(judged, Committed, Operator)
  :: what == OperatorRollback -> end_when_revoked(judged, RolledBack, Operator)
  :: what == GivenUp -> half[judged].given_up = 1
  :: what == Fence -> half[judged].due = 1
  :: else
  fi
}

/* A fence of before the check says nothing of the time since. */
inline forget_fences(asked_of) {
  for (i : op[queue_of(asked_of)].position .. op[queue_of(asked_of)].length - 1) {
    if
    :: op[queue_of(asked_of)].record[i].kind == Fence ->
         op[queue_of(asked_of)].record[i].halves = op[queue_of(asked_of)].record[i].halves & ~bit(asked_of)
    :: else
    fi
  }
  i = 0; half[asked_of].fenced = 0
}

inline check(checked) {
  if
  :: pending(checked) && half[checked].due && (is_revoked(checked) || !CHECKS_WAIT) && !is_held ->
       if
       :: half[checked].checks < CHECKS ->
            half[checked].checks++; half[checked].due = 0; ask = ask | bit(checked);
            if :: SKEWED :: else -> forget_fences(checked) fi
       :: half[checked].checks >= CHECKS && DISCARDS -> settle(checked, Discarded, Limit)
       :: else
       fi
  :: else
  fi
}

inline take(partition) {
  kind = next(partition).kind; named = next(partition).halves; revoked_id = next(partition).id;
  if :: REBUILDS -> op[partition].position++ :: else -> remove(partition, 0) fi;
  printf("%e of halves %d is read in queue %d\n", kind, named, partition)
}

inline apply(q) {
  take(q);
  for (h : 0 .. HALVES - 1) {
    if :: (named & bit(h)) && kind == Fence -> half[h].fenced = 0 :: else fi;
    if :: (named & bit(h)) && pending(h) -> judge(h, kind) :: else fi
  }
  if
  :: kind == Revoked || (kind == Forged && !PROOF) ->
       revoked[revoked_id * QUEUES + q] = 1; sending[revoked_id * QUEUES + q] = 0
  :: else
  fi;
  for (h : 0 .. HALVES - 1) {
    if
    :: pending(h) && half[h].waits && is_revoked(h) && !is_held -> settle(h, half[h].waits, half[h].waits_by)
    :: else
    fi;
    check(h)
  }
  h = 0; kind = 0; named = 0; revoked_id = 0
}

/* Ops wait for their halves. */
#define readable(q) (op[q].position < op[q].length && !next(q).open && \
  (!WAIT_FOR_HALF || ((next(q).halves & stored_unread) == 0) || next(q).kind == Fence))
#if HALVES == 1
#define stored_unread (half[0].stored && !half[0].read)
#else
#define stored_unread ((half[0].stored && !half[0].read) | ((half[1].stored && !half[1].read) << 1))
#endif

/* The Kafka transaction of a batch: delivery.pml shows that it is there once, whole, and in order. */
inline write() {
  for (h : 0 .. HALVES - 1) {
    if :: deliver & bit(h) -> appear(h) :: else fi;
    if :: ask & bit(h) -> half[h].asked = half[h].checks :: else fi
  }
  h = 0; deliver = 0; ask = 0
}

#define needs_fence(h) (pending(h) && !half[h].due && !half[h].fenced && half[h].checks < CHECKS + DISCARDS)

#define may_ask(h) (pending(h) && half[h].due && is_revoked(h) && half[h].checks < CHECKS + DISCARDS)

inline fence(q) {
  named = 0;
  for (h : 0 .. HALVES - 1) {
    if :: queue_of(h) == q && half[h].stored -> named = named | bit(h); half[h].fenced = 1 :: else fi
  }
  append(q, Fence, named, 0, 0); named = 0; h = 0
}

inline rebuild() {
  rebuilt = 1; printf("a rebuild\n");
  for (h : 0 .. HALVES - 1) {
    op[queue_of(h)].position = 0; revoked[id_of(h) * QUEUES + queue_of(h)] = 0;
    sending[id_of(h) * QUEUES + queue_of(h)] = 0;
    if
    :: !half[h].outcome ->
         half[h].read = 0; half[h].due = 0; half[h].checks = 0; half[h].given_up = 0;
         half[h].waits = 0; half[h].waits_by = 0
    :: else
    fi
  }
  h = 0
}

proctype Resolver() {
  byte h, i, named, revoked_id; mtype kind;
end:
  do
  :: atomic { !decided && readable(0) -> apply(0) }
  :: atomic { QUEUES > 1 && !decided && readable(QUEUES - 1) -> apply(QUEUES - 1) }
  :: atomic { !decided && half[0].stored && !half[0].read -> half[0].read = 1 }
  :: atomic { HALVES > 1 && !decided && half[HALVES - 1].stored && !half[HALVES - 1].read ->
       half[HALVES - 1].read = 1 }
  :: atomic { !READ_BACK && !decided && may_ask(0) -> check(0) }
  :: atomic { decided -> write() }
  :: atomic { !decided && needs_fence(0) -> fence(0) }
  :: atomic { HALVES > 1 && !decided && needs_fence(HALVES - 1) -> fence(queue_of(HALVES - 1)) }
  :: atomic { REBUILDS && !rebuilt && !decided -> rebuild() }
  od
}

#define wants(h) (pending(h) && !is_revoked(h) && \
  (half[h].due || half[h].checks || half[h].waits || (FREE_STUCK && stands(queue_of(h)))))
#define is_wanted(q, f) ((id_of(0) == f && queue_of(0) == q && wants(0)) || \
  (id_of(HALVES - 1) == f && queue_of(HALVES - 1) == q && wants(HALVES - 1)))

proctype Revoker(byte q, f) {
  bit crashed; byte i;
end:
  do
  :: atomic { REVOKE && is_wanted(q, f) && !sending[f * QUEUES + q] ->
       if :: !RECORD_LAST -> append(q, Revoked, 0, f, 1); sending[f * QUEUES + q] = 1 :: else fi };
     initialise(f);
     if
     :: atomic { READ_BACK && RECORD_LAST -> append(q, Revoked, 0, f, 0); sending[f * QUEUES + q] = 1 }
     :: atomic { !READ_BACK -> revoked[f * QUEUES + q] = 1 }
     :: atomic { !RECORD_LAST ->
          for (i : op[q].position .. op[q].length - 1) {
            if :: op[q].record[i].kind == Revoked -> op[q].record[i].open = 0 :: else fi
          }
          i = 0 }
     :: atomic { !crashed && RECORD_LAST -> crashed = 1; printf("the resolver dies and starts again\n") }
     fi
  od
}

/* ---------------------------------------------------------------- others */
/* An agent answers checks from the database; it may die before its answer is stored. */
proctype Asked(byte a) {
  byte h, seen[HALVES]; mtype answer;
end:
  do
  :: atomic { half[0].asked > seen[0] || half[HALVES - 1].asked > seen[HALVES - 1] ->
       if :: half[0].asked > seen[0] -> h = 0 :: half[HALVES - 1].asked > seen[HALVES - 1] -> h = HALVES - 1 fi;
       seen[h] = half[h].asked;
       if
       :: half[h].database == Committed -> answer = CheckCommit
       :: else -> half[h].database = RolledBack; answer = CheckRollback       /* it can't commit any more */
       fi;
       printf("an agent looks up half %d\n", h) };
     if
     :: atomic { append(queue_of(h), answer, bit(h), 0, 0); answer = 0; h = 0 }
     :: atomic { a > 0 || DISCARDS -> answer = 0; h = 0 }
     fi
  od
}

proctype ByHand() {
  if
  :: atomic { half[0].stored -> append(0, OperatorCommit, bit(0), 0, 0) }
  :: atomic { half[0].stored -> append(0, OperatorRollback, bit(0), 0, 0) }
  :: true
  fi
}

proctype OtherProcess() {
  if :: true -> goto done :: true fi;
  if :: FENCE_FIRST -> initialise(id_of(0)) :: else fi;
  atomic { if :: half[0].database == Committed -> append(0, Plain, bit(0), 0, 0) :: else fi };
done: skip
}

proctype OldResolver() {
  byte h, held;
  if :: atomic { deliver -> held = deliver } :: true fi;
  if :: initialise(0); if :: atomic { append(0, Revoked, 0, 0, 0) } :: true fi :: true fi;
  if :: atomic { half[0].stored -> append(0, Fence, bit(0), 0, 0) } :: true fi;
  atomic {
    for (h : 0 .. HALVES - 1) { if :: !ONE_WRITER && (held & bit(h)) -> appear(h) :: else fi }
    h = 0; held = 0
  }
}

proctype Forger() { if :: atomic { append(0, Forged, 0, 0, 0) } :: true fi }

proctype Loss() {
  byte i;
  if
  :: atomic { op[0].position < op[0].length && !next(0).open && next(0).kind == Delivered ->
       remove(0, op[0].position); lost = 1; printf("an op is lost\n") }
  :: true
  fi
}

/* When nothing more can happen, each half has ended, and its messages are as its outcome says. */
#define is_torn(h) (half[h].outcome && (half[h].outcome == Fast || half[h].outcome == Committed) != half[h].messages)
#define ends(how, who) (half[0].outcome == how && half[0].by == who)

proctype Monitor() {
  byte h;
  atomic { timeout ->
    for (h : 0 .. HALVES - 1) {
      assert(half[h].outcome || is_held);                               /* it never ends */
      assert(!is_torn(h))                                               /* a commit without its message */
    }
    /* The model is no empty one: it has these ends, and not the last of them. */
    assert(REACH != 1 || !ends(Fast, Application));                     /* a fast commit */
    assert(REACH != 2 || !ends(Committed, Agent));                      /* a commit by check */
    assert(REACH != 3 || !ends(RolledBack, Agent));                     /* a rollback by check */
    assert(REACH != 4 || !ends(Committed, Application));                /* a plain commit */
    assert(REACH != 5 || !ends(Discarded, Limit));                      /* a discard */
    assert(REACH != 6 || !ends(Fast, Application) || !half[0].checks)   /* a fast commit after a check */
  }
}

init {
  atomic {
    byte n;
    run Monitor(); run Resolver();
    for (n : 0 .. IDS - 1) { run Coordinator(n); run Producer(n) }
    for (n : 0 .. HALVES - 1) { run Transaction(n); run Network(n) }
    for (n : 0 .. AGENTS - 1) { run Asked(n) }
    run Revoker(0, 0);
    if :: IDS * QUEUES > 1 -> run Revoker(QUEUES - 1, IDS - 1) :: else fi;
    if :: OPERATORS -> run ByHand() :: else fi;
    if :: OTHER_PROCESSES -> run OtherProcess() :: else fi;
    if :: OLD_RESOLVERS -> run OldResolver() :: else fi;
    if :: FORGERS -> run Forger() :: else fi;
    if :: LOSSES -> run Loss() :: else fi
  }
}
