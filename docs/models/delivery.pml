/* Delivery: a batch's records and the marker in one Kafka transaction, exactly once.
 *
 * The model of resolver/resolve/delivery for spin. docs/design.md, "The model of delivery", names the
 * function behind each part, what is assumed and what is left out. scripts/model runs it.
 *
 * A batch has two records, a message and its outcome, in two partitions; the marker is a third.
 */

/* ---------------------------------------------------------------- size */
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef INSTANCES                       /* of the resolver; one more is started when all is quiet */
#define INSTANCES 2
#endif
#ifndef SWITCHES                        /* how often an instance sleeps or dies and another goes on */
#define SWITCHES 2
#endif
#ifndef LATE                            /* how many requests are overtaken */
#define LATE 1
#endif
#ifndef TIMEOUTS                        /* how many transactions time out */
#define TIMEOUTS 1
#endif
#ifndef KEEP_ALIVES                     /* how often an instance writes only the marker */
#define KEEP_ALIVES 0
#endif
#ifndef CHANGED                         /* 1: all but the first instance decide differently */
#define CHANGED 0
#endif
#ifndef BACKUP                          /* 1: a checkpoint is put back to one batch before */
#define BACKUP 0
#endif

/* ---------------------------------------------------------------- rules: 0 plants the fault */
/* Line one: after a call that may have been retried the next transaction has a higher epoch. */
#ifndef DROP_AFTER_SLOW_OFFSETS
#define DROP_AFTER_SLOW_OFFSETS 1
#endif
#ifndef DROP_AFTER_SLOW_COMMIT
#define DROP_AFTER_SLOW_COMMIT 1
#endif
#ifndef DROP_AFTER_SLOW_CLAIM
#define DROP_AFTER_SLOW_CLAIM 1
#endif
#ifndef DROP_AFTER_SLOW_KEEP_ALIVE
#define DROP_AFTER_SLOW_KEEP_ALIVE 1
#endif
/* Line two: after a doubtful transaction only those records are written that can't be seen. */
#ifndef COMPARE_AFTER_FAILURE
#define COMPARE_AFTER_FAILURE 1
#endif
#ifndef COMPARE_AFTER_INVALID_STATE
#define COMPARE_AFTER_INVALID_STATE 1
#endif
#ifndef COMPARE_AT_REPLAY
#define COMPARE_AT_REPLAY 1
#endif
#ifndef PLANNED_AFTER_CLAIM             /* what an earlier instance had begun is asked after the claim */
#define PLANNED_AFTER_CLAIM 1
#endif
#ifndef FLUSH_FIRST                     /* no offsets before each record is acknowledged */
#define FLUSH_FIRST 1
#endif
#ifndef NEVER_ABORT                     /* a producer that failed is dropped; 0: aborted, used again */
#define NEVER_ABORT 1
#endif
#ifndef INIT_BEFORE_READ                /* the marker is read once nothing older can be committed */
#define INIT_BEFORE_READ 1
#endif
#ifndef LOOK_AFTER_FAILURE              /* the marker says whether a batch came through */
#define LOOK_AFTER_FAILURE 1
#endif
#ifndef LOOK_FOR_OWNER                  /* whoever finds another's marker goes */
#define LOOK_FOR_OWNER 1
#endif
#ifndef CLAIM                           /* a new instance writes its name into the marker first */
#define CLAIM 1
#endif
#ifndef SKIP_DELIVERED                  /* what the marker has at the start is not written again */
#define SKIP_DELIVERED 1
#endif
#ifndef CHECK_DIGEST                    /* nor is it taken for what is decided now */
#define CHECK_DIGEST 1
#endif
#ifndef CHECK_ORDER                     /* a batch before the marker's stops the resolver */
#define CHECK_ORDER 1
#endif
/* Of Kafka and librdkafka. */
#ifndef VERIFY                          /* leaders ask the coordinator: KIP-890, first part */
#define VERIFY 1
#endif
#ifndef IDEMPOTENT                      /* enable.idempotence */
#define IDEMPOTENT 1
#endif
/* With line one no commit is ever of half a batch; with line two alone that is mended later. */
#ifndef WHOLE
#define WHOLE 1
#endif

mtype = {
  Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort,
  Nothing, InitProducerId, AddPartitionsToTxn, Produce, AddOffsetsToTxn, TxnOffsetCommit,
  EndTxn, AbortTxn,
  Ok, Concurrent, Fenced, InvalidTxnState, NoAnswer
}

#define bit(n) (1 << (n))
#define upto(n) ((1 << (n)) - 1)        /* the batches 1 to n, as bits */
#define MESSAGE 0
#define OUTCOME 1
#define OFFSETS 2
#define RECORDS (bit(MESSAGE) | bit(OUTCOME))
#define MARKER bit(OFFSETS)

typedef Request { mtype kind; byte epoch, parts, number, batch, owner }
typedef Marker { byte batch, owner }     /* decided[batch] is its digest */
/* open and visible: of which batches there are records, in an open transaction and committed. */
typedef Partition { byte epoch, last, open, visible }

/* ---------------------------------------------------------------- Kafka */
mtype state = Empty;                    /* the coordinator's */
byte epoch, in_txn, unmarked, timeouts;
Partition partition[3];
Marker pending, marker;
Request late[LATE + 1];                 /* requests that were overtaken, or that nobody waits for */
byte lates;

/* ---------------------------------------------------------------- instances and the checkpoint */
byte turn = 1, switches;                /* who runs; all others sleep, for a while or for good */
byte mine[INSTANCES + 2];               /* the epoch of each one's producer */
byte checkpoint, planned;               /* the last batch that is finished, and that was begun */
byte finished, replaced, stopped;       /* instances, as bits */
bit restored, decided[BATCHES + 1];     /* by whose rules the visible records were decided */
byte v, w;

#define prepared (state == PrepareCommit || state == PrepareAbort)
#define number_of(parts) (parts == bit(MESSAGE) -> MESSAGE : (parts == bit(OUTCOME) -> OUTCOME : OFFSETS))
#define rules_of(instance) (CHANGED && (instance) > 1)
#define is_empty (!partition[MESSAGE].open && !partition[OUTCOME].open && !partition[OFFSETS].open)
#define after(p) (partition[p].visible | partition[p].open)

/* Epochs are only compared. A number that nobody holds is taken out, so that there are few states. */
inline close_gap(held) { if :: held > v -> held-- :: else fi }

inline raise_epoch() {
  d_step {
    epoch++;
    v = epoch - 1;
    do
    :: v == 0 -> break
    :: else ->
         for (w : 0 .. LATE) { if :: late[w].epoch == v -> break :: else fi }
         if
         :: w <= LATE || partition[0].epoch == v || partition[1].epoch == v || partition[2].epoch == v
         :: else ->
              for (w : 1 .. INSTANCES + 1) { if :: mine[w] == v -> break :: else fi }
              if
              :: w <= INSTANCES + 1
              :: else ->
                   close_gap(epoch);
                   for (w : 0 .. 2) { close_gap(partition[w].epoch) }
                   for (w : 0 .. LATE) { close_gap(late[w].epoch) }
                   for (w : 1 .. INSTANCES + 1) { close_gap(mine[w]) }
              fi
         fi;
         v--
    od;
    v = 0; w = 0
  }
}

inline end_txn(ending) { state = ending; unmarked = in_txn; in_txn = 0 }

inline append(r, p) {
  if
  :: r.epoch != partition[p].epoch -> partition[p].epoch = r.epoch; partition[p].last = 0
  :: else
  fi;
  if
  :: r.kind == TxnOffsetCommit ->
       pending.batch = r.batch; pending.owner = r.owner; partition[p].open = 1
  :: r.kind == Produce && (r.number == partition[p].last + 1 || !IDEMPOTENT) ->
       assert(!(after(p) & bit(r.batch - 1)));                          /* twice */
       partition[p].last = r.number; partition[p].open = partition[p].open | bit(r.batch - 1);
       decided[r.batch] = rules_of(r.owner)
  :: else                               /* a duplicate by its sequence number */
  fi
}

/* What Kafka does with a request, in one step. */
inline serve(r) {
  if
  :: r.kind == InitProducerId ->
       if
       :: state == Ongoing -> end_txn(PrepareAbort); raise_epoch(); answer = Concurrent
       :: prepared -> answer = Concurrent
       :: else -> state = Empty; raise_epoch(); answer = Ok
       fi
  :: r.kind == AddPartitionsToTxn || r.kind == AddOffsetsToTxn ->
       if
       :: r.epoch != epoch -> answer = Fenced
       :: r.epoch == epoch && prepared -> answer = Concurrent
       :: else -> state = Ongoing; in_txn = in_txn | r.parts; answer = Ok
       fi
  :: r.kind == Produce || r.kind == TxnOffsetCommit ->
       p = number_of(r.parts);
       if
       :: r.epoch < partition[p].epoch -> answer = Fenced
       :: r.epoch == partition[p].epoch && partition[p].open -> append(r, p); answer = Ok
       :: else ->                       /* the leader asks the coordinator */
            if
            :: !VERIFY -> append(r, p); answer = Ok
            :: VERIFY && r.epoch != epoch -> answer = Fenced
            :: VERIFY && r.epoch == epoch && prepared -> answer = Concurrent
            :: VERIFY && r.epoch == epoch && (in_txn & r.parts) -> append(r, p); answer = Ok
            :: else -> answer = InvalidTxnState
            fi
       fi;
       p = 0
  :: r.kind == EndTxn ->
       if
       :: r.epoch != epoch -> answer = Fenced
       :: r.epoch == epoch && state == Ongoing ->
            assert(!WHOLE || is_empty || after(MESSAGE) == after(OUTCOME));          /* half a batch */
            assert(!WHOLE || is_empty || after(MESSAGE) == upto(pending.batch));     /* not the marker's */
            end_txn(PrepareCommit); answer = Ok
       :: r.epoch == epoch && state == CompleteCommit -> answer = Ok
       :: r.epoch == epoch && state == PrepareCommit -> answer = Concurrent
       :: else -> answer = InvalidTxnState
       fi
  :: r.kind == AbortTxn ->
       if
       :: r.epoch != epoch -> answer = Fenced
       :: r.epoch == epoch && state == Ongoing -> end_txn(PrepareAbort); answer = Ok
       :: r.epoch == epoch && state == CompleteAbort -> answer = Ok
       :: r.epoch == epoch && state == PrepareAbort -> answer = Concurrent
       :: else -> answer = InvalidTxnState
       fi
  fi
}

/* The coordinator writes a marker of its own into each partition of an ending transaction. */
inline mark(p) {
  if
  :: state == PrepareCommit && partition[p].open && p == OFFSETS ->
       marker.batch = pending.batch; marker.owner = pending.owner
  :: state == PrepareCommit && partition[p].open && p != OFFSETS ->
       partition[p].visible = partition[p].visible | partition[p].open;
       assert(!(partition[p].visible & (partition[p].visible + 1)))     /* out of order */
  :: else
  fi;
  if
  :: partition[p].epoch != epoch -> partition[p].epoch = epoch; partition[p].last = 0
  :: else
  fi;
  if :: p == OFFSETS -> pending.batch = 0; pending.owner = 0 :: else fi;
  partition[p].open = 0;
  unmarked = unmarked & ~bit(p)
}

proctype Coordinator() {
end:
  do
  :: atomic { prepared && (unmarked & bit(MESSAGE)) -> mark(MESSAGE) }
  :: atomic { prepared && (unmarked & bit(OUTCOME)) -> mark(OUTCOME) }
  :: atomic { prepared && (unmarked & bit(OFFSETS)) -> mark(OFFSETS) }
  :: atomic { state == PrepareCommit && !unmarked -> state = CompleteCommit }
  :: atomic { state == PrepareAbort && !unmarked -> state = CompleteAbort }
  :: atomic { state == Ongoing && timeouts < TIMEOUTS ->
       timeouts++; end_txn(PrepareAbort); raise_epoch(); printf("the transaction times out\n") }
  od
}

inline forget(r) {
  r.kind = Nothing; r.epoch = 0; r.parts = 0; r.number = 0; r.batch = 0; r.owner = 0
}

/* A request that was overtaken arrives at any time, or is lost. */
proctype Network(byte i) {
  mtype answer; byte p;
end:
  do
  :: atomic { late[i].kind != Nothing ->
       if
       :: printf("late %e of epoch %d arrives\n", late[i].kind, late[i].epoch); serve(late[i])
       :: printf("late %e is lost\n", late[i].kind)
       fi;
       answer = 0; forget(late[i]) }
  od
}

/* ---------------------------------------------------------------- the resolver */
inline request(what, which) { r.kind = what; r.parts = which; r.epoch = mine[me] }

inline record(p) { request(Produce, bit(p)); r.number = sent[p] + 1; r.batch = batch; r.owner = me }

/* A request that is due; librdkafka may choose among several. */
inline choose() {
  if
  :: !connected && (looked || INIT_BEFORE_READ) -> request(InitProducerId, 0)
  :: aborting -> request(AbortTxn, 0)
  :: connected && !aborting && (need & ~added) -> request(AddPartitionsToTxn, need & ~added)
  :: connected && !aborting && (need & added & ~acked & bit(MESSAGE)) -> record(MESSAGE)
  :: connected && !aborting && (need & added & ~acked & bit(OUTCOME)) -> record(OUTCOME)
  :: connected && !aborting && !(added & MARKER) && (!FLUSH_FIRST || (acked & RECORDS) == need) ->
       request(AddOffsetsToTxn, MARKER)
  :: connected && !aborting && (added & MARKER) && !(acked & MARKER) ->
       request(TxnOffsetCommit, MARKER); r.batch = batch; r.owner = me
  :: connected && !aborting && (acked & MARKER) && (acked & RECORDS) == need -> request(EndTxn, 0)
  fi
}

/* The first copy is on its way for as long as it likes. */
inline overtaken() {
  late[lates].kind = r.kind; late[lates].epoch = r.epoch; late[lates].parts = r.parts;
  late[lates].number = r.number; late[lates].batch = r.batch; late[lates].owner = r.owner;
  lates++;
  printf("%d: %e %d is overtaken\n", me, r.kind, r.parts)
}

/* The call took so long that it may have been retried. */
inline took_long() {
  if
  :: !claimed && !DROP_AFTER_SLOW_CLAIM
  :: claimed && keeping && !DROP_AFTER_SLOW_KEEP_ALIVE
  :: else ->
       if
       :: r.kind == EndTxn -> slow = slow || DROP_AFTER_SLOW_COMMIT
       :: r.kind == AddOffsetsToTxn || r.kind == TxnOffsetCommit -> slow = slow || DROP_AFTER_SLOW_OFFSETS
       :: else
       fi
  fi
}

inline drop() {
  connected = 0; looked = 0; aborting = 0; need = 0; added = 0; acked = 0; slow = 0;
  sent[MESSAGE] = 0; sent[OUTCOME] = 0; mine[me] = 0
}

inline failed() {
  if
  :: answer == InvalidTxnState -> doubtful = doubtful || COMPARE_AFTER_INVALID_STATE
  :: else -> doubtful = doubtful || COMPARE_AFTER_FAILURE
  fi;
  if
  :: NEVER_ABORT || !connected || answer == Fenced || !added -> drop()
  :: else -> aborting = 1
  fi
}

inline needs(p) {
  if :: !doubtful || !(partition[p].visible & bit(batch - 1)) -> need = need | bit(p) :: else fi
}

/* After doubt only what can't be seen is written. */
inline begin() {
  need = 0; added = 0; acked = 0; slow = 0;
  if :: claimed && !keeping -> needs(MESSAGE); needs(OUTCOME) :: else fi
}

inline finish() {
  position++;
  assert(decided[position] == rules_of(me));                            /* decided otherwise */
  if :: position > checkpoint -> checkpoint = position :: else fi
}

/* Spark plans the next batch, or replays the one that was planned. */
inline next() {
  do
  :: position == BATCHES -> break
  :: position < BATCHES && position + 1 == delivered && SKIP_DELIVERED ->
       if :: CHECK_DIGEST && decided[delivered] != rules_of(me) -> stopped = stopped | bit(me); break :: else -> finish() fi
  :: position < BATCHES && position + 1 < delivered && CHECK_ORDER -> stopped = stopped | bit(me); break
  :: else ->
       batch = position + 1;
       doubtful = COMPARE_AT_REPLAY && batch <= begun;
       if :: batch > planned -> planned = batch :: else fi;
       break
  od
}

/* The transaction is committed. */
inline written() {
  printf("%d: batch %d is written\n", me, batch);
  delivered = batch;
  if
  :: keeping -> keeping = 0
  :: claimed && !keeping -> finish()
  :: else ->
       claimed = 1; position = checkpoint;
       if :: PLANNED_AFTER_CLAIM -> begun = planned :: else fi;
       if
       :: BACKUP && !restored && me > 1 && position > 0 -> restored = 1; position--
       :: else
       fi
  fi;
  due = 1
}

inline look() {
  printf("%d: the marker has batch %d of %d\n", me, marker.batch, marker.owner);
  looked = 1;
  if
  :: !claimed -> batch = marker.batch; if :: CLAIM -> begin() :: else -> written() fi
  :: claimed && marker.owner != me && LOOK_FOR_OWNER -> replaced = replaced | bit(me)
  :: claimed && (marker.owner == me || !LOOK_FOR_OWNER) ->
       if
       :: LOOK_AFTER_FAILURE && !keeping && marker.batch == batch -> written()
       :: else -> begin()
       fi
  fi
}

inline answered() {
  if
  :: answer == Concurrent -> waits = 1
  :: answer == Fenced || answer == InvalidTxnState || answer == NoAnswer -> failed()
  :: answer == Ok && r.kind == InitProducerId ->
       connected = 1; mine[me] = epoch;
       if :: looked -> begin() :: else fi
  :: answer == Ok && r.kind == Produce ->
       p = number_of(r.parts); sent[p]++; p = 0; acked = acked | r.parts
  :: answer == Ok && r.kind == TxnOffsetCommit -> acked = acked | r.parts
  :: answer == Ok && r.kind == EndTxn -> written(); if :: slow -> drop() :: else fi
  :: answer == Ok && r.kind == AbortTxn -> aborting = 0; looked = 0
  :: else -> added = added | r.parts
  fi
}

proctype Instance(byte me) {
  Request r; mtype answer; byte p;
  bit connected, looked, aborting, claimed, slow, doubtful, waits, due, keeping;
  byte need, added, acked, batch, delivered, position, kept, begun, sent[2];
end:
  atomic { turn == me -> if :: PLANNED_AFTER_CLAIM :: else -> begun = planned fi };
end1:
  do
  /* the next batch, or the marker once more to keep it alive */
  :: atomic { turn == me && due ->
       due = 0;
       if
       :: claimed -> next()
       :: claimed && kept < KEEP_ALIVES -> kept++; keeping = 1; batch = delivered
       fi;
       if
       :: (stopped & bit(me)) || (position == BATCHES && !keeping) -> break
       :: else -> if :: connected -> begin() :: else fi
       fi }
  :: atomic { turn == me && !due && (connected || !INIT_BEFORE_READ) && !aborting && !looked && (!partition[OFFSETS].open || !INIT_BEFORE_READ) ->
       look();
       if :: replaced & bit(me) -> break :: else fi }
  :: atomic { turn == me && !due && (looked || (!connected && INIT_BEFORE_READ)) && (!waits || !prepared) ->
       waits = 0; choose();
       if
       :: serve(r); printf("%d: %e %d of epoch %d: %e\n", me, r.kind, r.parts, r.epoch, answer); answered()
       :: lates < LATE -> overtaken(); took_long()
       :: lates < LATE -> overtaken(); answer = NoAnswer; printf("%d gives up\n", me); answered()
       fi;
       answer = 0; forget(r) }
  od;
  atomic {
    if :: position == BATCHES -> finished = finished | bit(me) :: else fi;
    drop(); claimed = 0; doubtful = 0; batch = 0; delivered = 0; position = 0; kept = 0; begun = 0
  }
}

/* An instance sleeps, or dies, at any step, and another starts, or goes on. */
proctype Scheduler() {
end:
  do
  :: atomic { switches < SWITCHES ->
       switches++; turn = (turn == INSTANCES -> 1 : turn + 1); printf("now %d\n", turn) }
  od
}

/* When all is quiet a last instance starts, and then everything must be there. */
proctype Monitor() {
  timeout ->
  atomic { printf("all is quiet\n"); switches = SWITCHES; turn = INSTANCES + 1; run Instance(turn) };
  timeout ->
  atomic {
    assert((finished | stopped) & bit(INSTANCES + 1));                  /* stuck */
    assert(!stopped || CHANGED || BACKUP);                              /* stopped for nothing */
    assert(stopped || partition[MESSAGE].visible == upto(BATCHES));     /* lost */
    assert(partition[MESSAGE].visible == partition[OUTCOME].visible);   /* an outcome alone */
    assert(!WHOLE || partition[MESSAGE].visible == upto(marker.batch))  /* the marker behind */
  }
}

init {
  atomic {
    byte n;
    run Coordinator(); run Scheduler();
    for (n : 0 .. LATE) { late[n].kind = Nothing }
    for (n : 0 .. LATE) { if :: n < LATE -> run Network(n) :: else fi }
    for (n : 1 .. INSTANCES) { run Instance(n) }
    run Monitor()
  }
}
